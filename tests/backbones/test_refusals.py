"""What is wrong with a directory is said in plain words, with the next step, and exit code 2."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.backbones.families import KINDS, load
from wmbench.cli.app import run_cli
from wmbench.errors import ConfigError
from wmbench.runtime.backbones.hf.directory import Checkpoint
from wmbench.testing.checkpoints import make_checkpoint


@pytest.fixture
def copy(checkpoints: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda kind: Path(shutil.copytree(checkpoints[kind], tmp_path / kind))


def change_config(directory: Path, **changes: Any) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def change_weights(directory: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(directory / "model.safetensors")
    change(tensors)
    save_file(tensors, directory / "model.safetensors")


def refused(kind: str, directory: Path, match: str, **settings: Any) -> ConfigError:
    with pytest.raises(ConfigError, match=match) as caught:
        load(kind, directory, **settings)
    assert caught.value.exit_code == 2
    assert caught.value.hint, "no next step"
    return caught.value


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("llada", "alibi", True),
        ("llada", "attention_layer_norm", True),
        ("llada", "input_emb_norm", True),
        ("llada", "scale_logits", True),
        ("llada", "weight_tying", True),
        ("llada", "block_group_size", 2),
        ("llada", "rope_scaling", {"type": "linear", "factor": 2.0}),
        ("llada", "a_new_idea", 1),
        ("dream", "use_mrope", True),
        ("dream", "use_sliding_window", True),
        ("dream", "rope_scaling", {"rope_type": "yarn", "factor": 4.0}),
        ("dream", "rope_parameters", {"rope_type": "yarn", "rope_theta": 1e6}),
        ("dream", "rope_parameters", {"rope_type": "default", "rope_theta": 5.0}),
        ("dream", "rope_parameters", {"rope_type": "default", "factor": 2.0}),
        ("llada2", "rope_parameters", {"rope_type": "default", "partial_rotary_factor": 1.0}),
        ("llada", "embedding_size", 40),
        ("dream", "head_dim", 32),
        ("llada2", "use_bias", True),
        ("llada2", "use_qkv_bias", True),
        ("llada2", "use_qk_norm", False),
        ("llada2", "tie_word_embeddings", True),
        ("dream", "tie_word_embeddings", True),
        ("llada2", "norm_head", True),
        ("llada2", "score_function", "softmax"),
        ("llada2", "n_group", 3),
        ("llada2", "topk_group", 5),
        ("llada2", "quantization_config", {"bits": 4}),
    ],
)
def test_config_keys_that_are_not_covered(kind: str, key: str, value: Any, copy: Callable[[str], Path]) -> None:
    directory = copy(kind)
    change_config(directory, **{key: value})
    refused(kind, directory, key)


def test_missing_keys_mean_the_published_defaults(copy: Callable[[str], Path]) -> None:
    directory = copy("llada")
    config = json.loads((directory / "config.json").read_text())
    del config["rope"]
    (directory / "config.json").write_text(json.dumps(config))
    refused("llada", directory, "rope")


@pytest.mark.parametrize("kind", KINDS)
def test_missing_and_extra_tensors_are_named(kind: str, copy: Callable[[str], Path]) -> None:
    directory = copy(kind)
    name = sorted(load_file(directory / "model.safetensors"))[5]
    change_weights(directory, lambda tensors: tensors.pop(name))
    refused(kind, directory, f"{name}' is missing")
    change_weights(directory, lambda tensors: tensors.update({name: torch.zeros(1), "model.surplus": torch.zeros(2)}))
    refused(kind, directory, "model.surplus' is not expected")


def test_a_tensor_of_the_wrong_shape_is_named(copy: Callable[[str], Path]) -> None:
    directory = copy("llada2")
    name = "model.layers.1.attention.query_key_value.weight"
    change_weights(directory, lambda tensors: tensors.update({name: tensors[name][:-24].clone()}))
    refused("llada2", directory, "wrong shape")


def test_quantised_weights_are_refused(copy: Callable[[str], Path]) -> None:
    directory = copy("llada")
    name = "model.transformer.blocks.0.q_proj.weight"
    change_weights(directory, lambda tensors: tensors.update({name: tensors[name].to(torch.int8)}))
    assert "quantised" in str(refused("llada", directory, "int8").why)
    change_weights(directory, lambda tensors: tensors.update({name: tensors[name].to(torch.float8_e4m3fn)}))
    assert "quantised" in str(refused("llada", directory, "F8_E4M3").why)


def test_a_missing_shard(tmp_path: Path) -> None:
    directory = make_checkpoint("llada", tmp_path / "sharded", shards=3)
    (directory / "model-00002-of-00003.safetensors").unlink()
    assert "00002" in str(refused("llada", directory, "shard"))


@pytest.mark.parametrize("damage", ["cut", "header", "empty"])
def test_a_damaged_file(damage: str, copy: Callable[[str], Path]) -> None:
    path = copy("llada") / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-1000], "header": b"\xff" * 64 + data[64:], "empty": b""}[damage])
    error = refused("llada", path.parent, "damaged")
    assert "download" in str(error.hint)


def test_a_header_that_makes_no_sense(copy: Callable[[str], Path]) -> None:
    path = copy("llada") / "model.safetensors"
    for offsets in (["a", "b"], ["0", "16"], [0], [-8, 8], [0, 10**12], None):
        entry = {"x": {"dtype": "F32", "shape": [4], "data_offsets": offsets}}
        header = json.dumps(entry).encode()
        path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
        refused("llada", path.parent, "is missing" if offsets == ["0", "16"] else "damaged")  # numbers may be quoted


def test_no_memory_for_the_weights(checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("tried to allocate 16.00 GiB")

    monkeypatch.setattr("wmbench.runtime.backbones.hf.carrier.stream", full)
    error = refused("llada", checkpoints["llada"], "does not fit")
    assert "split" in str(error.hint)


def test_shards_that_contradict_each_other(tmp_path: Path) -> None:
    directory = make_checkpoint("llada", tmp_path / "sharded", shards=2)
    shutil.copy(directory / "model-00001-of-00002.safetensors", directory / "model-00002-of-00002.safetensors")
    refused("llada", directory, "in two shards")


def test_shards_without_their_index(tmp_path: Path) -> None:
    directory = make_checkpoint("llada", tmp_path / "sharded", shards=2)
    (directory / "model.safetensors.index.json").unlink()
    assert "index.json" in str(refused("llada", directory, "holds no model.safetensors").hint)


def test_a_file_that_cannot_be_read(checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def forbidden(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.suffix == ".safetensors":
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", forbidden)
    error = refused("llada", checkpoints["llada"], "cannot be read")
    assert "model.safetensors" in str(error.where)


@pytest.mark.parametrize("kind", KINDS)
def test_no_tokenizer(kind: str, copy: Callable[[str], Path]) -> None:
    directory = copy(kind)
    for name in ("tokenizer.json", "vocab.json", "merges.txt"):
        (directory / name).unlink(missing_ok=True)
    assert "tokenizer files" in str(refused(kind, directory, "holds no tokenizer").hint)


def test_tokenizers_that_make_no_sense(copy: Callable[[str], Path]) -> None:
    directory = copy("llada")
    for damaged, match in ((b"\xff\xfe", "not text"), (b"[]", "not a JSON object")):
        (directory / "tokenizer_config.json").write_bytes(damaged)
        refused("llada", directory, match)
    (directory / "tokenizer_config.json").unlink()
    for content, match in (
        ("version https://git-lfs.github.com/spec/v1", "tokenizer cannot be read"),
        (json.dumps({"model": {"type": "BPE", "vocab": {}, "merges": []}}), "no id of the model|needs"),
    ):
        (directory / "tokenizer.json").write_text(content)
        refused("llada", directory, match)
    (directory / "tokenizer.json").unlink()
    (directory / "vocab.json").write_text("{}")  # of a kind that only transformers could know
    assert refused("llada", directory, "tokenizer cannot be read").why


def test_heads_that_do_not_divide(copy: Callable[[str], Path]) -> None:
    directory = copy("dream")
    change_config(directory, num_attention_heads=5, num_key_value_heads=5)
    refused("dream", directory, "multiple of the heads")
    change_config(directory, num_attention_heads=4, num_key_value_heads=3)
    refused("dream", directory, "multiple of key heads")


def test_weights_that_are_no_safetensors(copy: Callable[[str], Path]) -> None:
    directory = copy("llada")
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    assert "run code" in str(refused("llada", directory, "model.safetensors").hint)


def test_directories_that_are_none(tmp_path: Path) -> None:
    refused("llada", tmp_path / "nowhere", "does not exist")
    refused("llada", tmp_path, "holds no model")
    (tmp_path / "config.json").write_text("{")
    refused("llada", tmp_path, "not JSON")
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    (tmp_path / "tokenizer.json").write_text("{}")
    refused("llada", tmp_path, "gpt2|tokenizer")


def test_no_cuda(checkpoints: dict[str, Path]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for device in ("cuda", "cuda:1", "split"):
        refused("llada", checkpoints["llada"], "CUDA is not available", device=device)
    for device in ("quantum", "meta"):
        refused("llada", checkpoints["llada"], "not a device", device=device)


def test_a_gpu_that_is_not_there(checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert "cuda:1" in str(refused("llada", checkpoints["llada"], "no device 'cuda:7'", device="cuda:7").hint)


@pytest.mark.parametrize("mistake", ["shard", "damage", "key", "cuda", "hub"])
def test_the_command_line_ends_with_code_two_and_a_next_step(
    mistake: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    directory = make_checkpoint("llada", tmp_path / "model", shards=2)
    shard = directory / "model-00001-of-00002.safetensors"
    if mistake == "shard":
        shard.unlink()
    elif mistake == "damage":
        shard.write_bytes(shard.read_bytes()[:3000])
    elif mistake == "key":
        change_config(directory, a_new_idea=1)
    model = ["llada-8b", "-B", "path=nobody/no-such-model"] if mistake == "hub" else [str(directory)]
    device = ["--device", "cuda" if mistake == "cuda" else "cpu"]
    assert run_cli(["generate", "x", "--model", *model, *device, "-D", "max_new_tokens=4"]) == 2
    error = capsys.readouterr().err
    assert "next step:" in error
    assert "Traceback" not in error


def test_a_hub_id_without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def gated(*_: object, **__: object) -> str:
        raise OSError("401: access to this model is restricted")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", gated)
    with pytest.raises(ConfigError, match="model hub") as caught:
        Checkpoint.open("GSAI-ML/LLaDA-8B-Instruct")
    assert "gated" in str(caught.value.hint)
    assert "401" in str(caught.value.why)


def test_tokenizer_of_another_model(copy: Callable[[str], Path]) -> None:
    directory = copy("dream")
    change_config(directory, vocab_size=300)
    change_weights(
        directory,
        lambda tensors: tensors.update(
            {name: tensors[name][:300].clone() for name in ("model.embed_tokens.weight", "lm_head.weight")}
        ),
    )
    refused("dream", directory, "tokenizer has")
