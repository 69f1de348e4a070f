"""Weights from a file that a user named: the wrong one is a mistake to be told, not a crash."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from wmbench.errors import ConfigError


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file."""
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise ConfigError("the weights cannot be read", where=str(path), why=str(error)) from error


def fill(model: nn.Module, tensors: dict[str, Tensor], origin: Path) -> None:
    """Load the tensors into the model, as float32."""
    if {name: t.shape for name, t in tensors.items()} != {name: t.shape for name, t in model.state_dict().items()}:
        raise ConfigError("these weights are of another model", where=str(origin), hint="check the file or the folder")
    model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
