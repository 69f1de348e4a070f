"""Texts before and after an attack, and what an attacker may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wmbench.types.detection import NullText
from wmbench.types.services import Encoder, TextCodec


@dataclass(frozen=True, slots=True)
class AttackInput:
    """One text to be attacked; randomness depends on (seed, id) alone."""

    id: str
    text: str
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class Attacked:
    """One attacked text. A failed item has text None and says why; it is never replaced by the original."""

    text: str | None
    error: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


AttackFunction = Callable[[Sequence[AttackInput], "AttackContext"], Sequence[Attacked]]
"""What an attack does to texts: the hook `attack` as a function."""


@dataclass(frozen=True, slots=True)
class AttackContext:
    """Handed to `attack`."""

    seed: int
    codec: TextCodec
    load_encoder: Callable[[str], Encoder] | None = None
    load_backbone: Callable[[str], Any] | None = None
    """A `Backbone` by registered name, for attackers that use a model; the empty name is the run's own."""
    load_nulls: Callable[[str, int], Iterable[NullText]] | None = None
    """The first so many texts of a registered null set, for attackers that mix in unmarked text."""
    load_attack: Callable[[str, Mapping[str, Any]], AttackFunction] | None = None
    """Another attack by name (as on the command line) and settings, for attackers that build on it."""
