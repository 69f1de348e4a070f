"""Analytic laws on null tokens: a law that holds, one that does not, and which step is to blame."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.helpers import KEY
from wmbench.bench.null_law import NullTokens, findings, repetition
from wmbench.cli import main
from wmbench.runtime.backbones.tiny import ToyCodec
from wmbench.testing import toy_texts

Analyse = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def analysed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Analyse:
    """`wmbench analyse null` on texts of a file."""
    monkeypatch.setenv("WMBENCH_KEY", KEY)

    def call(texts: list[str], schemes: tuple[str, ...], *options: str) -> list[dict[str, Any]]:
        file = tmp_path / "nulls.jsonl"
        file.write_text("".join(json.dumps({"text": text, "id": f"t{i}"}) + "\n" for i, text in enumerate(texts)))
        chosen = [word for name in schemes for word in ("--scheme", name)]
        basics = ["--backbone", "tiny", "--nulls", f"texts:{file}", "--output", str(tmp_path / "runs"), "--json"]
        assert main(["analyse", "null", *chosen, *basics, *options]) == 0
        found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["results"]
        return found

    return call


def test_laws_hold_on_independent_words(analysed: Analyse) -> None:
    """Texts of uniform words are what the laws describe: text, shuffled and uniform tokens agree with the level."""
    lengths = np.random.default_rng(0).integers(16, 33, 400).tolist()
    schemes = ("dlm_kgw", "patternmark", "umr")
    for result in analysed(toy_texts(lengths), schemes, "--texts", "200", "--keys", "8"):
        assert result["texts"] == 200
        assert result["changed_by_retokenisation"] == 0
        for variant in ("text", "shuffled", "uniform"):
            assert result["rates"][variant]["0.1"]["estimate"] < 0.16, (result["scheme"], variant)
        assert sum(part["texts"] for part in result["strata"]["tokens"]) == 200


def test_repeated_phrases_are_blamed(analysed: Analyse) -> None:
    """Every text says one phrase again and again. UMR counts a pair as often as it occurs; DLM-KGW counts it once."""
    draw = np.random.default_rng(1)
    texts = []
    for length in draw.integers(16, 33, 500).tolist():
        phrase = [f"w{i}" for i in draw.integers(3, 61, 4)]
        texts.append(" ".join((phrase * 8)[:length]))
    umr, kgw = analysed(texts, ("umr", "dlm_kgw"), "--texts", "200", "--keys", "6")
    assert umr["rates"]["text"]["0.01"]["estimate"] > 0.05
    assert umr["spread"]["text"]["within_key"] > 1.5 > umr["spread"]["uniform"]["within_key"]
    assert "phrases" in umr["findings"][0]
    assert kgw["rates"]["text"]["0.01"]["estimate"] < 0.03


def test_schemes_without_a_law_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", "null", "--scheme", "denmark", "--backbone", "tiny"]) == 2
    assert "no analytic law" in capsys.readouterr().err


def test_a_law_that_is_switched_off_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", "null", "--scheme", "umr", "-S", "umr.p_value=empirical", "--backbone", "tiny"]) == 2
    assert "set it to normal" in capsys.readouterr().err


def test_variants_keep_what_they_say() -> None:
    codec = ToyCodec(61)
    tokens = NullTokens.of(["w5 w6 w5 w6 w7", "w8"], codec)
    text, shuffled, uniform = (tokens.variants[name] for name in ("text", "shuffled", "uniform"))
    assert sorted(shuffled.of(0)) == sorted(text.of(0)) == [5, 5, 6, 6, 7]
    assert uniform.lengths.tolist() == [5, 1]
    assert not codec.special_ids & set(uniform.values.tolist())
    assert tokens.repetition.tolist() == [0.25, 0.0]
    assert repetition(np.array([1, 1, 1])) == 0.5


@pytest.mark.parametrize(
    ("text", "shuffled", "uniform", "expected"),
    [
        (0.01, 0.01, 0.01, "no level"),
        (0.05, 0.01, 0.01, "phrases"),
        (0.05, 0.05, 0.01, "frequent tokens"),
        (0.05, 0.05, 0.05, "the law itself"),
    ],
)
def test_findings_name_the_step(text: float, shuffled: float, uniform: float, expected: str) -> None:
    def rates(value: float) -> dict[str, dict[str, float]]:
        exact = {
            level: {"estimate": float(level), "low": 0.0, "high": 1.0, "worst_key": 0.0}
            for level in ("0.1", "0.05", "0.001")
        }
        return {**exact, "0.01": {"estimate": value, "low": value * 0.9, "high": value * 1.1, "worst_key": value}}

    found = findings({"text": rates(text), "shuffled": rates(shuffled), "uniform": rates(uniform)})
    assert len(found) == 1
    assert expected in found[0]
