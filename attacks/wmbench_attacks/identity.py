"""The attack that does nothing: what it reports is detection without an attack, through the path of an attack."""

from __future__ import annotations

from collections.abc import Sequence

from wmbench import hookimpl
from wmbench.types import Attacked, AttackInput


class Identity:
    def __init__(self, config: None) -> None:
        """Nothing to configure."""

    @hookimpl
    def attack(self, texts: Sequence[AttackInput]) -> list[Attacked]:
        return [Attacked(item.text) for item in texts]
