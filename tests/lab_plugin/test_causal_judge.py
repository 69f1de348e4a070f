"""A causal model of transformers as a judge of fluency."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from wmbench.errors import ConfigError
from wmbench.lab.codec import lab_codec
from wmbench.quality import FoundJudge, TextJudge, find_judge

transformers = pytest.importorskip("transformers", reason="such judges need the extra `hf`")
POSITIONS = 32


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model of two words, stored in bfloat16."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path_factory.mktemp("judges") / "judge"
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]").save_pretrained(folder)
    torch.manual_seed(0)
    size = {"n_positions": POSITIONS, "n_embd": 64, "n_layer": 4, "n_head": 2}
    config = transformers.GPT2Config(vocab_size=3, bos_token_id=0, eos_token_id=0, initializer_range=0.5, **size)
    transformers.GPT2LMHeadModel(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def judge(folder: Path) -> TextJudge:
    return found(f"hf:{folder}").load()


def found(name: str) -> FoundJudge:
    judge = find_judge(name, lab_codec())
    assert isinstance(judge, FoundJudge)
    return judge


def test_a_text_is_judged_as_the_answer_to_its_prompt_and_alone(judge: TextJudge) -> None:
    both = judge.log_perplexity(["a b", "b b b b b"], ["a b a", "b " * 20])
    assert judge.log_perplexity(["a b"], ["a b a"])[0] == pytest.approx(both[0], rel=1e-6)
    assert judge.log_perplexity(["b a"], ["a b a"])[0] != pytest.approx(both[0], rel=1e-3)
    assert judge.log_perplexity(["a"], [""])[0] != judge.log_perplexity(["a"], [""])[0]  # not a number


def test_what_is_too_long_for_the_judge_is_cut(judge: TextJudge) -> None:
    text = "a b a"
    seen = "b " * (POSITIONS - 3)
    whole = judge.log_perplexity([seen, "a " * 100 + seen], [text, text])
    assert whole[0] == pytest.approx(whole[1], rel=1e-5)
    start = "a b " * (POSITIONS // 2)
    cut = judge.log_perplexity(["b", "b"], [start, start + "b " * 50])
    assert cut[0] == pytest.approx(cut[1], rel=1e-5)


def test_a_home_folder_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert found("hf:~/judge").load().log_perplexity(["a"], ["b"]).shape == (1,)
    with pytest.raises(ConfigError, match="cannot be loaded"):
        found("hf:~/none").load()


def test_a_judge_in_a_folder_is_what_the_folder_holds(folder: Path, tmp_path: Path) -> None:
    """Else the figures of other weights would pass for its own."""
    place = shutil.copytree(folder, tmp_path / "judge")
    before = found(f"hf:{place}").identity
    assert found(f"hf:{folder}").identity == before
    (place / "README.md").write_text("a judge")
    assert found(f"hf:{place}").identity == before
    state = load_file(place / "model.safetensors")
    state["transformer.ln_f.bias"] += 1
    save_file(state, place / "model.safetensors", {"format": "pt"})
    assert found(f"hf:{place}").identity != before
    assert found("hf:owner/name").identity == "hf:owner/name"  # on the hub
