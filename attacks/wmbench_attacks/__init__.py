"""The built-in attacks, one module per family."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.types import AttackInfo


@hookimpl
def register_attacks() -> list[AttackInfo]:
    return [
        AttackInfo(
            name="identity",
            summary="leaves the text as it is: the control of every comparison",
            factory="wmbench_attacks.identity:Identity",
            preserves="everything",
        )
    ]
