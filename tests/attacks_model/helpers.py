"""Attacks by name, as the benchmark builds and calls them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import wmbench_attacks

from wmbench.testing.harness import build, hooks_of
from wmbench.testing.toys import tiny_backbone
from wmbench.types import AttackContext, Attacked, AttackInfo, AttackInput


def info_of(name: str) -> AttackInfo:
    return next(info for info in wmbench_attacks.register_attacks() if info.name == name)


def run_attack(name: str, settings: dict[str, Any], texts: Sequence[str], seed: int = 0) -> list[Attacked]:
    items = [AttackInput(f"item-{i}", text) for i, text in enumerate(texts)]
    hooks = hooks_of(build(info_of(name), settings), name)
    return list(hooks.attack(items, AttackContext(seed, tiny_backbone().codec)))


def attacked_texts(results: Sequence[Attacked]) -> list[str]:
    """The texts of attacks that must all have worked."""
    assert [result.error for result in results] == [None] * len(results)
    return [result.text or "" for result in results]
