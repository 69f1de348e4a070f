"""Parrot, DIPPER and Pegasus on tiny random checkpoints."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from wmbench_attacks.rewriting import pieces_of
from wmbench_attacks.seq2seq import DipperConfig, shared_pairs, windows

from tests.attacks_model.checkpoints import make_pegasus, make_t5
from tests.attacks_model.helpers import attacked_texts, info_of, run_attack
from wmbench.errors import ConfigError
from wmbench.testing import AttackContract

pytestmark = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="extra hf")

SENTENCES = [
    "The river rises in spring.",
    "It floods the meadows, and the cattle move uphill.",
    "Bread needs a hot oven.",
    "Small sums grow, because interest earns interest!",
]
TEXT = " ".join(SENTENCES)


@pytest.fixture(scope="session")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_t5(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="session")
def pegasus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pegasus(tmp_path_factory.mktemp("pegasus"))


@pytest.fixture
def settings(t5: Path) -> dict[str, Any]:
    """A random model hardly ever ends a sentence, so what reaches the limit is kept."""
    return {"model": str(t5), "tokenizer": None, "max_new_tokens": 6, "cut_off": "keep"}


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the model is given to read."""
    from wmbench_attacks.seq2seq_model import Seq2SeqModel

    seen: list[str] = []
    original = Seq2SeqModel.encode

    def encode(model: Seq2SeqModel, text: str, most: int) -> list[int] | None:
        seen.append(text)
        return original(model, text, most)

    monkeypatch.setattr(Seq2SeqModel, "encode", encode)
    return seen


# --- every model -------------------------------------------------------------------------------------------------


class Paraphraser(AttackContract):
    extra: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _use_the_checkpoint(self, settings: dict[str, Any]) -> None:
        self.settings = {**settings, **self.extra}  # type: ignore[misc]


class TestParrot(Paraphraser):
    info = info_of("parrot")
    extra: ClassVar[dict[str, Any]] = {"candidates": 3}


class TestDipper(Paraphraser):
    info = info_of("dipper")
    extra: ClassVar[dict[str, Any]] = {"window": 10_000}
    """So the longest text is one window, and refused as such."""


class TestPegasus(Paraphraser):
    info = info_of("pegasus")
    extra: ClassVar[dict[str, Any]] = {"beams": 2}

    @pytest.fixture(autouse=True)
    def _use_the_checkpoint(self, settings: dict[str, Any], pegasus: Path) -> None:
        self.settings = {**settings, **self.extra, "model": str(pegasus)}  # type: ignore[misc]


@pytest.mark.parametrize("name", ["parrot", "dipper"])
def test_what_is_too_long_or_cut_off_fails(name: str, settings: dict[str, Any]) -> None:
    (long,) = run_attack(name, {**settings, "max_input_tokens": 10}, [TEXT])
    assert (long.text, "longer than 10 tokens" in (long.error or "")) == (None, True)
    (cut,) = run_attack(name, {**settings, "max_new_tokens": 1, "cut_off": "fail"}, [TEXT])
    assert (cut.text, "cut off" in (cut.error or "")) == (None, True)
    (kept,) = run_attack(name, settings, [TEXT])
    assert kept.details["cut_off"] > 0


def test_a_forced_end_does_not_count_as_the_models_own(pegasus: Path, settings: dict[str, Any]) -> None:
    """Pegasus checkpoints force an end of text at the limit."""
    (result,) = run_attack("pegasus", {**settings, "model": str(pegasus), "beams": 2}, [TEXT])
    assert result.details["cut_off"] > 0


def test_results_name_the_checkpoint(settings: dict[str, Any], tmp_path: Path) -> None:
    other = make_t5(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\0")
    models = [settings["model"], str(other)]
    found = [run_attack("parrot", {**settings, "candidates": 1, "model": model}, [TEXT])[0] for model in models]
    assert len({result.details["checkpoint"] for result in found}) == 2


def test_a_model_that_is_not_there_or_not_safe_is_named(settings: dict[str, Any], t5: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no directory"):
        run_attack("parrot", {**settings, "model": "./nowhere"}, [TEXT])
    for file in t5.iterdir():
        if file.suffix == ".json":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        run_attack("parrot", {**settings, "model": str(tmp_path)}, [TEXT])


def test_the_documented_way_to_pairs(pegasus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "attacks.md").read_text(encoding="utf-8")
    (code,) = (block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "pairs.jsonl" in block)
    monkeypatch.chdir(tmp_path)
    Path("segments.txt").write_text("\n".join([*SENTENCES, "***"]))
    settings = f'model={str(pegasus)!r}, max_new_tokens=6, cut_off="keep", beams=2'
    exec(code.replace('model="models/pegasus"', settings), {})
    pairs = [json.loads(line) for line in Path("pairs.jsonl").read_text().splitlines()]
    assert [pair["anchor"] for pair in pairs] == SENTENCES
    assert all(pair["positive"] for pair in pairs)


# --- Parrot ------------------------------------------------------------------------------------------------------


def test_parrot_takes_the_beam_least_like_the_sentence(settings: dict[str, Any], t5: Path) -> None:
    from wmbench_attacks.seq2seq_model import load_model

    model = load_model(str(t5), None, "float32")
    sentence = SENTENCES[1]
    ids = model.encode(f"paraphrase: {sentence}", 512)
    assert ids is not None
    (beams,) = model.generate([ids], 6, num_beams=4, num_return_sequences=4)
    assert len({output.text for output in beams}) > 1
    assert all(output.text for output in beams), "ids beyond the tokenizer are never produced"
    best = min(beams, key=lambda output: (not output.is_whole, shared_pairs(output.text, sentence)))
    assert attacked_texts(run_attack("parrot", {**settings, "candidates": 4}, [sentence])) == [best.text]


def test_shared_pairs() -> None:
    assert shared_pairs("the river rises", "The river rises fast") == pytest.approx(2 / 3)
    assert shared_pairs("rises the river fast", "the river rises fast") == pytest.approx(1 / 3)
    assert shared_pairs("", "the river") == 0
    assert shared_pairs("River", "river") == 1


# --- DIPPER ------------------------------------------------------------------------------------------------------


def test_dipper_says_windows_again_after_what_it_has_said(settings: dict[str, Any], encoded: list[str]) -> None:
    (new,) = attacked_texts(run_attack("dipper", {**settings, "lexical": 60, "order": 20, "attempts": 1}, [TEXT]))
    first, second = encoded
    assert first == f"lexical = 40, order = 80 <sent> {' '.join(SENTENCES[:3])} </sent>"
    before = second.removeprefix("lexical = 40, order = 80 ").removesuffix(f" <sent> {SENTENCES[3]} </sent>")
    assert new.startswith(before)
    assert before


def test_dipper_leaves_out_old_context_before_anything_else(settings: dict[str, Any], encoded: list[str]) -> None:
    long = " ".join([*SENTENCES, *SENTENCES, *SENTENCES])
    (result,) = run_attack("dipper", {**settings, "max_input_tokens": 130, "attempts": 1}, [long])
    assert result.error is None
    assert any(" <sent> " in text and not text.startswith("lexical = 60, order = 100 <sent>") for text in encoded)
    windows_seen = {text[text.index("<sent>") :] for text in encoded}
    assert len(windows_seen) < len(encoded), "an input that was too long was tried again with less before it"


def test_dipper_draws_by_seed_and_id_alone(settings: dict[str, Any]) -> None:
    texts = [TEXT, " ".join(SENTENCES[:2]), TEXT]
    one_by_one = attacked_texts(run_attack("dipper", {**settings, "batch_size": 1}, texts))
    assert one_by_one[0] != one_by_one[2], "the same text under another id"
    assert attacked_texts(run_attack("dipper", {**settings, "batch_size": 3}, texts)) == one_by_one
    assert attacked_texts(run_attack("dipper", settings, texts, seed=1)) != one_by_one


def test_draws_follow_the_nucleus(t5: Path) -> None:
    """With a tiny nucleus sampling is greedy search; with all of it, it is not."""
    from wmbench_attacks.seq2seq_model import load_model

    model = load_model(str(t5), None, "float32")
    ids = model.encode(TEXT, 512)
    assert ids is not None
    uniforms = [np.random.default_rng(3).random(8)]
    (greedy,) = model.generate([ids], 8)
    (narrow,) = model.generate([ids], 8, sampling=(uniforms, 1.0, 1e-9))
    (wide,) = model.generate([ids], 8, sampling=(uniforms, 5.0, 1.0))
    assert narrow == greedy
    assert wide != greedy


def test_windows_keep_paragraphs() -> None:
    text = " One. Two. Three. Four.\n\nFive. Six.\n"
    found = windows(pieces_of(text, "sentence"), 3)
    assert [piece.text for piece in found] == ["One. Two. Three.", "Four.", "Five. Six."]
    assert "".join(piece.before + piece.text + piece.after for piece in found) == text


@pytest.mark.parametrize("setting", [{"lexical": 30}, {"order": 110}, {"top_p": 0}])
def test_dipper_knows_its_codes(setting: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        DipperConfig(**setting)
