"""A model split over devices, as far as that can be seen without a GPU: weights go where accelerate wants them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers.utils import is_accelerate_available

from tests.backbones.families import load
from wmbench.cli import main
from wmbench.errors import ConfigError
from wmbench.runtime.backbones.hf import carrier

CPU, ELSEWHERE = torch.device("cpu"), torch.device("meta")


@pytest.mark.parametrize("backbone", [[], ["--model", "tiny"]])
@pytest.mark.parametrize(
    ("device", "told"),
    [("cuda", "CUDA is not available"), ("mps", "not a device that is supported"), ("split", "not split over GPUs")],
)
def test_a_device_that_is_not_there_is_the_user_s_mistake(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    backbone: list[str],
    device: str,
    told: str,
) -> None:
    """Of the embedded models, too; and where none is named, the default one is meant."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    where = ["--output", str(tmp_path), "--no-attacks"]
    assert main(["run", "--scheme", "none", "--samples", "1", "--device", device, *backbone, *where]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert "plugin" not in error


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """`split` finds a device, which is the CPU here."""
    monkeypatch.setattr(carrier, "chosen_device", lambda _: CPU)


def fake_accelerate(monkeypatch: pytest.MonkeyPatch, device_map: dict[str, Any]) -> list[dict[str, Any]]:
    """Its answers are given; returns what it was asked to dispatch."""
    dispatched: list[dict[str, Any]] = []

    def dispatch_model(model: Any, device_map: dict[str, Any]) -> Any:
        dispatched.append(device_map)
        return model

    is_accelerate_available()  # remembered: transformers would look for the stand-in's version
    accelerate = SimpleNamespace(infer_auto_device_map=lambda *_, **__: device_map, dispatch_model=dispatch_model)
    monkeypatch.setitem(sys.modules, "accelerate", accelerate)
    utils = SimpleNamespace(get_balanced_memory=lambda *_, **__: None)
    monkeypatch.setitem(sys.modules, "accelerate.utils", utils)
    return dispatched


@pytest.mark.usefixtures("one_gpu")
def test_every_layer_is_read_to_its_device(checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    device_map = {"model.embed_tokens": CPU, "model.layers.0": CPU, "model.layers.1": ELSEWHERE}
    device_map |= {"model.norm": ELSEWHERE, "model.rotary_emb": CPU, "lm_head": ELSEWHERE}
    dispatched = fake_accelerate(monkeypatch, {})
    monkeypatch.setattr(carrier, "_device_map", lambda *_: device_map)
    model = load("dream", checkpoints["dream"], device="split").carrier.model  # type: ignore[attr-defined]
    assert dispatched == [device_map]
    for name, parameter in model.named_parameters():
        assert parameter.device == next(device for part, device in device_map.items() if name.startswith(part))
    assert model.model.rotary_emb.inv_freq.device == CPU


@pytest.mark.usefixtures("one_gpu")
def test_what_does_not_fit_the_gpus_is_refused(checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    fake_accelerate(monkeypatch, {"model.layers.0": 0, "model.layers.1": "cpu"})
    with pytest.raises(ConfigError, match="does not fit the GPUs") as caught:
        load("llada", checkpoints["llada"], device="split")
    assert "model.layers.1" in str(caught.value.why)


@pytest.mark.usefixtures("one_gpu")
def test_without_accelerate_the_extra_is_named(checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ConfigError, match="accelerate") as caught:
        load("llada2", checkpoints["llada2"], device="split")
    assert "multi-gpu" in str(caught.value.hint)
