"""The device that a model computes on, refused before anything is loaded."""

from __future__ import annotations

import torch

from wmbench.errors import ConfigError

SPLIT = "split"


def chosen_device(name: str) -> torch.device:
    """`auto`, `split` or a name of torch."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    unknown = ConfigError(f"{name!r} is not a device that is supported", hint="cpu, cuda, cuda:0, ..., split or auto")
    try:
        device = torch.device("cuda:0" if name == SPLIT else name)
    except RuntimeError as error:
        raise unknown from error
    if device.type not in ("cpu", "cuda"):  # draws need float64, which others do not have
        raise unknown
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"device {name!r} was asked for, but CUDA is not available",
            why="torch sees no GPU, or is a build without CUDA",
            hint="use --device cpu, or install torch for your GPU",
        )
    if device.type == "cuda" and device.index is not None and device.index >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise ConfigError(
            f"there is no device {name!r}", why=f"GPUs found: {count}", hint=f"use --device cuda:0 to cuda:{count - 1}"
        )
    return device


def one_device(name: str, model: str) -> torch.device:
    """The same for a model that is not split."""
    if name == SPLIT:
        raise ConfigError(f"{model} is not split over GPUs", hint="use --device cuda")
    return chosen_device(name)
