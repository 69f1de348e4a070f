"""Hugging Face encoders: batches that follow from each text alone, and clear refusals. Models only where installed."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from wmbench.errors import ConfigError
from wmbench.semantics.cache import FOLDER_VARIABLE
from wmbench.semantics.hf_encoder import (
    BATCH_ROWS,
    LENGTH_STEP,
    HfEncoder,
    batches_by_length,
    from_argument,
    locate,
    minilm,
)

needs_transformers = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="extra hf")
TEXTS = [
    "bake bread",
    "",
    "plant a tree near the house " * 8,
    "save money every month",
    "bake bread",
    "keep it warm " * 200,
]


def test_padding_follows_from_the_text_alone() -> None:
    lengths = [3, 40, 17, 16, 5, *[9] * 70]
    made = batches_by_length(lengths)
    assert sorted(place for _, places in made for place in places) == list(range(len(lengths)))
    for length, places in made:
        assert len(places) <= BATCH_ROWS
        assert all(length - LENGTH_STEP < lengths[place] <= length for place in places)
    assert batches_by_length([19, 3], longest=20) == [(16, [1]), (20, [0])], "the model has 20 positions"


@pytest.mark.parametrize("name", ["./nowhere", "/nowhere/at/all", "justaname"])
def test_a_missing_directory_is_named(name: str) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        locate(name)


def test_a_directory_without_safetensors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no encoder"):
        _ = HfEncoder(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ConfigError, match="safetensors"):
        _ = HfEncoder(tmp_path)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"wmbench\[hf\]"):
        _ = HfEncoder(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"wmbench\[minilm\]"):
        minilm()


@needs_transformers
def test_an_unreachable_hub_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def unreachable(*_: object, **__: object) -> str:
        raise OSError("no route to host")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", unreachable)
    with pytest.raises(ConfigError, match="model hub") as error:
        locate("intfloat/e5-base-v2")
    assert "no route" in str(error.value)


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer BERT in a directory, made by the library itself."""
    import torch
    import transformers  # type: ignore[import-not-found,unused-ignore]

    directory = tmp_path_factory.mktemp("bert")
    words = sorted({word for text in TEXTS for word in text.split()})
    (directory / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]))
    transformers.BertTokenizerFast(vocab_file=str(directory / "vocab.txt")).save_pretrained(directory)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=5 + len(words), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    transformers.BertModel(config).save_pretrained(directory, safe_serialization=True)
    return directory


@needs_transformers
def test_embeddings_keep_their_order_and_ignore_neighbours(tiny_bert: Path) -> None:
    encoder = HfEncoder(tiny_bert)
    together = encoder.encode(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-5)
    np.testing.assert_array_equal(together[0], together[4])
    for text, row in zip(TEXTS, together, strict=True):
        np.testing.assert_allclose(encoder.encode([text])[0], row, atol=1e-5)
    assert encoder.encode([]).shape == (0, 32)
    assert HfEncoder(tiny_bert).fingerprint == encoder.fingerprint


@needs_transformers
def test_half_a_character_is_encoded_like_a_question_mark(tiny_bert: Path) -> None:
    encoder = HfEncoder(tiny_bert)
    broken, whole = encoder.encode(["bake \ud800 bread"]), encoder.encode(["bake ? bread"])
    np.testing.assert_array_equal(broken, whole)


@needs_transformers
def test_the_fingerprint_covers_the_tokenizer(tiny_bert: Path, tmp_path: Path) -> None:
    other = shutil.copytree(tiny_bert, tmp_path / "other")
    assert HfEncoder(other).fingerprint == HfEncoder(tiny_bert).fingerprint
    settings = other / "tokenizer_config.json"
    settings.write_text(settings.read_text() + "\n")
    assert HfEncoder(other).fingerprint != HfEncoder(tiny_bert).fingerprint


@needs_transformers
def test_missing_and_damaged_weights_are_refused(tiny_bert: Path, tmp_path: Path) -> None:
    """The library would draw the missing layer at random."""
    deeper = shutil.copytree(tiny_bert, tmp_path / "deeper")
    config = json.loads((deeper / "config.json").read_text())
    (deeper / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(ConfigError, match=r"lacks weights[^!]*layer\.2"):
        HfEncoder(deeper)
    (deeper / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        HfEncoder(deeper)


@needs_transformers
def test_vectors_are_kept_where_the_environment_says(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(from_argument(str(tiny_bert)), HfEncoder)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "vectors"))
    vectors = from_argument(str(tiny_bert)).encode(TEXTS)
    monkeypatch.setattr(HfEncoder, "encode", lambda *_: pytest.fail("these texts are known"))
    np.testing.assert_array_equal(from_argument(str(tiny_bert)).encode(TEXTS[::-1]), vectors[::-1])


@needs_transformers
def test_a_transformer_is_trained_by_the_same_command(tiny_bert: Path, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from wmbench.semantics.commands import train_encoder

    sentence = "bake bread plant tree near the house save money every month keep it warm"
    words = sentence.split()
    rows = [{"text": " ".join(words[i % 9 : i % 9 + 4]), "paraphrase": words[(i * 5) % 14]} for i in range(40)]
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "made"
    arguments = [str(pairs), "--out", str(out), "--encoder", f"hf:{tiny_bert}", "--epochs", "1", "--batch-size", "8"]
    result = CliRunner().invoke(train_encoder, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert HfEncoder(out).fingerprint != HfEncoder(tiny_bert).fingerprint
