"""Builds a native class of transformers around published weights, without a second copy of them in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wmbench.errors import ConfigError, IntegrityError
from wmbench.runtime.backbones.hf import attention
from wmbench.runtime.backbones.hf.directory import Checkpoint
from wmbench.runtime.backbones.hf.family import Family
from wmbench.runtime.backbones.hf.keys import ConfigKeys
from wmbench.runtime.backbones.hf.weights import fingerprint, stored_tensors, stream, targets_of
from wmbench.runtime.devices import SPLIT, chosen_device

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Carrier:
    """A loaded model."""

    model: Any
    settings: Mapping[str, Any]
    device: torch.device
    """Where its input goes; a model split over several GPUs moves states itself."""
    fingerprint: str


def import_transformers() -> Any:
    try:
        import transformers  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ConfigError("this backbone needs the package transformers", hint="pip install 'wmbench[hf]'") from error
    return transformers


def chosen_dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    return _DTYPES[name]


def carrier_settings(checkpoint: Checkpoint, family: Family) -> dict[str, Any]:
    """Settings of the carrier's configuration; every key of config.json is accounted for."""
    keys = ConfigKeys(checkpoint.config, str(checkpoint.directory / "config.json"))
    settings = family.settings(keys)
    keys.finish()
    where, hint = str(checkpoint.directory / "config.json"), "use the published config.json"
    if settings["hidden_size"] % settings["num_attention_heads"] and "head_dim" not in settings:
        raise ConfigError("config.json: the width is not a multiple of the heads", where=where, hint=hint)
    if settings["num_attention_heads"] % settings["num_key_value_heads"]:
        raise ConfigError("config.json: query heads are not a multiple of key heads", where=where, hint=hint)
    return settings


def load_carrier(checkpoint: Checkpoint, family: Family, device_name: str, dtype_name: str) -> Carrier:
    """Strictly: every tensor by its published name, none left over."""
    settings = carrier_settings(checkpoint, family)
    stored = stored_tensors(checkpoint.directory)
    device = chosen_device(device_name)
    model = empty_model(family, settings, device)
    dtype = chosen_dtype(dtype_name, device)
    device_map = _device_map(model, dtype) if device_name == SPLIT else {"": device}
    targets = targets_of(model.state_dict(), dtype, lambda name: _device_of(name, device_map))
    try:
        state = stream(stored, family.layout(settings), targets, str(checkpoint.directory))
    except torch.OutOfMemoryError as error:
        raise ConfigError(
            f"the model does not fit into the memory of {device_name!r}",
            where=str(checkpoint.directory),
            why=f"it takes {sum(target.bytes for target in targets.values()) / 1e9:.1f} GB as {dtype}",
            hint="use -B dtype=bfloat16, or several GPUs (--device split)",
        ) from error
    model.load_state_dict(state, strict=True, assign=True)
    # Frequencies are not stored; on the meta device they have no values, so they are built anew where there are some.
    rotary = model.model.rotary_emb
    model.model.rotary_emb = type(rotary)(config=model.config).to(_device_of("model.rotary_emb", device_map))
    check_frequencies(model, settings)
    model.eval().requires_grad_(False)
    if len(set(device_map.values())) > 1:
        from accelerate import dispatch_model

        model = dispatch_model(model, device_map=device_map)
    identity = fingerprint(stored, family.name, repr(sorted(settings.items())), str(dtype))
    return Carrier(model, settings, device, identity)


def empty_model(family: Family, settings: Mapping[str, Any], device: torch.device) -> Any:
    """On the meta device: shapes without values, whatever its size."""
    transformers = import_transformers()
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    transformers.AttentionInterface.register(attention.NAME, attention.attention)
    ALL_EXPERTS_FUNCTIONS.register(attention.NAME, attention.experts)
    carrier = getattr(transformers, family.carrier)
    config = carrier.config_class(**settings)
    config._attn_implementation = attention.NAME
    if device.type == "cpu":
        config._experts_implementation = attention.NAME  # elsewhere the grouped kernels of transformers
    with torch.device("meta"):
        return carrier(config)


def rotary_frequencies(settings: Mapping[str, Any]) -> Tensor:
    """theta^(-2j/d) for j = 0 .. d/2 - 1, d the rotated part of a head."""
    rope = settings["rope_parameters"]
    head_width = settings.get("head_dim") or settings["hidden_size"] // settings["num_attention_heads"]
    rotated = int(head_width * rope.get("partial_rotary_factor", 1.0))
    return rope["rope_theta"] ** -(torch.arange(0, rotated, 2, dtype=torch.float64) / rotated)


def check_frequencies(model: Any, settings: Mapping[str, Any]) -> float:
    """Largest relative error of the carrier's rotary frequencies; a carrier that has others must not run."""
    expected, found = rotary_frequencies(settings), model.model.rotary_emb.inv_freq.double().cpu()
    error = float((found / expected - 1).abs().max()) if found.shape == expected.shape else float("inf")
    if not error < 1e-5:
        raise IntegrityError(
            "the rotary frequencies of the carrier are wrong",
            why=f"relative error {error:.2g} against theta^(-2j/d)",
            hint="this version of transformers builds them differently; install the pinned one (constraints.txt)",
        )
    return error


def _device_map(model: Any, dtype: torch.dtype) -> dict[str, torch.device]:
    """Layers over all GPUs, as even as accelerate makes it."""
    try:
        from accelerate import infer_auto_device_map
        from accelerate.utils import get_balanced_memory
    except ImportError as error:
        raise ConfigError(
            "several GPUs need the package accelerate", hint="pip install 'wmbench[multi-gpu]'"
        ) from error
    whole = list(model._no_split_modules)
    memory = get_balanced_memory(model, dtype=dtype, no_split_module_classes=whole)
    found = infer_auto_device_map(model, max_memory=memory, dtype=dtype, no_split_module_classes=whole)
    if too_large := [name for name, device in found.items() if device in ("cpu", "disk")]:
        raise ConfigError("the model does not fit the GPUs", why=f"no room for {too_large[0]}", hint="use more GPUs")
    return {name: torch.device("cuda", device) for name, device in found.items()}


def _device_of(name: str, device_map: Mapping[str, torch.device]) -> torch.device:
    """The device of the longest prefix of a parameter's name."""
    parts = name.split(".")
    for length in range(len(parts), -1, -1):
        if (found := device_map.get(".".join(parts[:length]))) is not None:
            return found
    return next(iter(device_map.values()))
