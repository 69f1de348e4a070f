"""What tells one family of checkpoints from another. Imports no torch."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wmbench.errors import ConfigError
from wmbench.runtime.backbones.hf.directory import Checkpoint
from wmbench.runtime.backbones.hf.keys import ConfigKeys


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of a stored tensor, and the part of a carrier's parameter that they fill."""

    parameter: str
    at: tuple[int | slice, ...] = ()
    """Leading indices into the parameter; () is the whole of it."""
    rows: tuple[int, int] | None = None
    """First row and one past the last row of the stored tensor; None: all."""


Layout = Iterator[tuple[str, tuple[Piece, ...]]]
"""Every stored tensor by its published name, and where it goes."""


@dataclass(frozen=True, slots=True)
class Family:
    """Checkpoints of one published architecture, and the class of transformers that computes the same."""

    name: str
    carrier: str
    """`LlamaForCausalLM`, ..."""
    settings: Callable[[ConfigKeys], dict[str, Any]]
    """Settings of the carrier's configuration from the published keys; refuses what it does not cover."""
    layout: Callable[[Mapping[str, Any]], Layout]
    """From the carrier's settings."""
    prompt: str
    """Published prompt layout, `{prompt}` where the text goes."""
    mask_tokens: tuple[str, ...]
    """Names of the mask token, for tokenizers that do not say which it is."""
    end_tokens: tuple[str, ...]
    """End of text and end of turn: where an answer may stop."""
    trims_prompt: bool = False
    """The published template strips white space around the prompt."""
    logit_shift: int = 0
    advised_length: int | None = None
    """Longest canvas the authors advise, where the configuration says more."""


FAMILIES: Mapping[str, str] = {
    "llada": "wmbench.runtime.backbones.hf.llada",
    "Dream": "wmbench.runtime.backbones.hf.dream",
    "llada2_moe": "wmbench.runtime.backbones.hf.llada2",
}
"""By model_type; each module has a `FAMILY`."""


def family_of(checkpoint: Checkpoint) -> Family:
    module = FAMILIES.get(checkpoint.model_type)
    if module is None:
        raise ConfigError(
            f"model_type {checkpoint.model_type!r} is not covered here",
            where=str(checkpoint.directory / "config.json"),
            why=f"covered: {', '.join(FAMILIES)}",
            hint="a masked language model of the BERT family is named as masked-lm:<directory>",
        )
    family: Family = importlib.import_module(module).FAMILY
    return family
