"""Directories as they are published or saved: what surrounds the weights must neither stop nor change the model."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.backbones.families import KINDS, expected_logits, load, logits_of, rows_of
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.hf.codec import CheckpointCodec, make_codec
from wmbench.runtime.backbones.hf.directory import Checkpoint
from wmbench.runtime.engine import Engine
from wmbench.testing.checkpoints import make_checkpoint

AUTO_MAPS = {
    "llada": {"AutoConfig": "configuration_llada.LLaDAConfig", "AutoModel": "modeling_llada.LLaDAModelLM"},
    "dream": {"AutoConfig": "configuration_dream.DreamConfig", "AutoModel": "modeling_dream.DreamModel"},
    "llada2": {"AutoConfig": "configuration_llada2_moe.LLaDA2MoeConfig"},
}
LEFT_OVERS: Mapping[str, dict[str, Any]] = {
    "llada": {"tie_word_embeddings": False, "bos_token_id": 126080},
    "dream": {"bos_token_id": 151643},
    "llada2": {
        **{"rotary_dim": 64, "moe_shared_expert_intermediate_size": 512, "eos_token_id": 156892},
        **{"num_nextn_predict_layers": 0, "mtp_loss_scaling_factor": 0, "pretraining_tp": 1, "use_qk_norm": True},
    },
}
"""What stays in a config.json that was made small: ids of the large vocabulary, and sizes that nobody reads."""


@pytest.fixture
def copy(checkpoints: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda kind: Path(shutil.copytree(checkpoints[kind], tmp_path / kind))


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**(json.loads(path.read_text()) if path.exists() else {}), **changes}))


def codec_of(backbone: Backbone) -> CheckpointCodec:
    assert isinstance(backbone.codec, CheckpointCodec)
    return backbone.codec


def assert_follows_the_formulas(kind: str, directory: Path, **known: Any) -> Backbone:
    """`known` is what the configuration leaves to be worked out."""
    backbone = load(kind, directory)
    row = rows_of(backbone)[1]
    engine = Engine(backbone)
    found, expected = logits_of(engine, [row])[0], expected_logits(kind, directory, row, **known)
    allowed = torch.from_numpy(engine.allowed)
    torch.testing.assert_close(found[:, allowed], expected[:, allowed], rtol=1e-5, atol=1e-5)
    return backbone


@pytest.mark.parametrize("kind", KINDS)
def test_published_surroundings(kind: str, copy: Callable[[str], Path]) -> None:
    """Remote code, generation settings and stale numbers lie in the directory and have no influence."""
    directory = copy(kind)
    before = load(kind, directory)
    change(
        directory / "config.json",
        auto_map=AUTO_MAPS[kind],
        _name_or_path="somewhere/else",
        torch_dtype="bfloat16",
        **LEFT_OVERS[kind],
    )
    change(directory / "generation_config.json", mask_token_id=None, eos_token_id=1, alg="origin", steps=512)
    for name in AUTO_MAPS[kind].values():
        (directory / f"{name.partition('.')[0]}.py").write_text("raise SystemExit('remote code was run')")
    after = assert_follows_the_formulas(kind, directory)
    assert (after.mask_id, after.eos_ids, after.banned_ids) == (before.mask_id, before.eos_ids, before.banned_ids)


@pytest.mark.parametrize("kind", KINDS)
def test_configuration_saved_by_transformers_5(kind: str, copy: Callable[[str], Path]) -> None:
    """It writes `dtype`, and repeats the rotary settings as `rope_parameters` without `rope_scaling`."""
    directory = copy(kind)
    path = directory / "config.json"
    config = json.loads(path.read_text())
    rope = {"rope_type": "default", "rope_theta": config["rope_theta"]}
    if kind == "llada2":
        rope["partial_rotary_factor"] = config["partial_rotary_factor"]
    for name in ("rope_scaling", "torch_dtype", "use_cache"):
        config.pop(name, None)
    extra = {} if kind == "llada" else {"rope_parameters": rope}
    path.write_text(json.dumps({**config, **extra, "dtype": "float32", "transformers_version": "5.22.2"}))
    assert_follows_the_formulas(kind, directory)


@pytest.mark.parametrize("kind", KINDS)
def test_keys_that_say_nothing(kind: str, copy: Callable[[str], Path]) -> None:
    """Null is absence, plain rotary embeddings may be said at length, and versions leave notes of their own."""
    directory = copy(kind)
    change(
        directory / "config.json",
        rope_scaling={"rope_type": "default"},
        quantization_config=None,
        _attn_implementation_autoset=True,
    )
    assert_follows_the_formulas(kind, directory)


def test_sizes_that_follow_from_others(tmp_path: Path) -> None:
    """No key heads of their own, a hidden width by ratio, more rows than tokens: as OLMo's configuration allows."""
    wide = {"n_kv_heads": 4, "mlp_hidden_size": 128, "mlp_ratio": 2}
    directory = make_checkpoint("llada", tmp_path / "llada", overrides=wide)
    rows = json.loads((directory / "config.json").read_text())["embedding_size"]
    change(directory / "config.json", n_kv_heads=None, mlp_hidden_size=None, vocab_size=rows - 5)
    assert assert_follows_the_formulas("llada", directory, **wide).vocab_size == rows


def test_router_with_strong_biases(copy: Callable[[str], Path]) -> None:
    """Scores below zero: experts outside the chosen groups must not slip in, and weights come from unbiased scores."""
    directory = copy("llada2")
    tensors = load_file(directory / "model.safetensors")
    generator = torch.Generator().manual_seed(1)
    for name in tensors:
        if name.endswith("expert_bias"):
            tensors[name] = -2 + torch.randn(tensors[name].shape, generator=generator)
    save_file(tensors, directory / "model.safetensors")
    assert_follows_the_formulas("llada2", directory)


@pytest.mark.parametrize(
    "overrides",
    [
        {"num_experts_per_tok": 1},
        {"first_k_dense_replace": 0, "num_shared_experts": 2},
        {"first_k_dense_replace": 2, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 1.0},
        {"partial_rotary_factor": 1.0, "num_key_value_heads": 4, "rope_theta": 10000},
    ],
    ids=lambda overrides: ",".join(overrides),
)
def test_other_shapes_of_llada2(overrides: dict[str, Any], tmp_path: Path) -> None:
    assert_follows_the_formulas("llada2", make_checkpoint("llada2", tmp_path / "other", overrides=overrides))


def test_special_ids_far_behind_the_words(copy: Callable[[str], Path]) -> None:
    """Dream's tokenizer is two lists; its special ids need not follow the last word."""
    directory = copy("dream")
    path = directory / "tokenizer_config.json"
    fields = json.loads(path.read_text())
    apart = {token["content"]: 1000 + 3 * n for n, token in enumerate(fields["added_tokens_decoder"].values())}
    by_id = {str(apart[token["content"]]): token for token in fields["added_tokens_decoder"].values()}
    path.write_text(json.dumps({**fields, "added_tokens_decoder": by_id}))
    ids = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), apart["<|endoftext|>"])
    change(directory / "config.json", vocab_size=1100, mask_token_id=apart["<|mask|>"], **ids)
    tensors = load_file(directory / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        tensors[name] = tensors[name].repeat(4, 1)[:1100].clone()
    save_file(tensors, directory / "model.safetensors")
    backbone = assert_follows_the_formulas("dream", directory)
    assert backbone.mask_id == apart["<|mask|>"]
    assert backbone.eos_ids == {apart["<|endoftext|>"], apart["<|im_end|>"]}
    assert backbone.codec.encode_prompt("Why?")[0] == apart["<|im_start|>"]
    words = json.loads((directory / "vocab.json").read_text()).values()
    assert set(range(1100)) - set(backbone.banned_ids) == set(words) | backbone.eos_ids


def test_tokenizer_files_of_older_versions(copy: Callable[[str], Path]) -> None:
    """added_tokens.json and special_tokens_map.json instead of fields of tokenizer_config.json."""
    directory = copy("dream")
    before = make_codec(Checkpoint.open(str(directory)))
    fields = json.loads((directory / "tokenizer_config.json").read_text())
    tokens = {entry["content"]: int(i) for i, entry in fields.pop("added_tokens_decoder").items()}
    names = {name: fields.pop(name) for name in list(fields) if name.endswith("_token")}
    (directory / "tokenizer_config.json").write_text(json.dumps(fields))
    (directory / "added_tokens.json").write_text(json.dumps(tokens))
    (directory / "special_tokens_map.json").write_text(json.dumps({**names, "mask_token": {"content": "<|mask|>"}}))
    change(directory / "config.json", mask_token_id=None)
    after = make_codec(Checkpoint.open(str(directory)))
    assert (after.ids.mask, after.ids.ends, after.ids.every) == (before.ids.mask, before.ids.ends, before.ids.every)
    assert after.encode_prompt("Which one?") == before.encode_prompt("Which one?")


def test_several_ends_and_a_mask_without_a_token(copy: Callable[[str], Path]) -> None:
    """eos_token_id may be a list; the mask may be one of the ids that only the model knows."""
    directory = copy("llada")
    config = json.loads((directory / "config.json").read_text())
    mask, ends = config["embedding_size"] - 2, [config["eos_token_id"], 40]
    change(directory / "config.json", mask_token_id=mask, eos_token_id=ends)
    backbone = assert_follows_the_formulas("llada", directory)
    assert backbone.mask_id == mask
    assert set(ends) <= backbone.eos_ids
    assert mask in backbone.banned_ids
    assert codec_of(backbone).token_of(mask) == "(no token)"
