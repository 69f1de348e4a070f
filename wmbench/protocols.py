"""Protocols that mirror the run hooks, for type checkers and for people who write a scheme or an attack.

Every method is optional except the ones marked required; a test keeps the signatures equal to `hookspecs.RunSpecs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from wmbench.detection.calibration import Calibration
    from wmbench.keys import SecretKey
    from wmbench.runtime.step import Step
    from wmbench.types import (
        AttackContext,
        Attacked,
        AttackInput,
        Commit,
        Features,
        Sample,
        TextContext,
        Verdict,
        Views,
    )


class Generates(Protocol):
    """Required of every scheme."""

    def decode_step(self, step: Step) -> Commit: ...


class KeepsState(Protocol):
    """Schemes that remember something per sample."""

    def begin(self, sample: Sample) -> Any: ...


class Scores(Protocol):
    """Schemes whose mark can be detected."""

    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views: ...


class HasFeatures(Protocol):
    """Schemes that score something else than token ids."""

    def features(self, texts: Sequence[str], context: TextContext) -> Features: ...


class Decides(Protocol):
    """Schemes with a p-value of their own."""

    def detect(self, views: Views, calibration: Calibration | None, context: TextContext) -> Sequence[Verdict]: ...


class Attacks(Protocol):
    """Required of every attack."""

    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> Sequence[Attacked]: ...
