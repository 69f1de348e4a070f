"""Attacks by name, through the checked hooks, with the services of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import wmbench_attacks
from hypothesis import strategies as st

from wmbench.lab import plugin as lab
from wmbench.testing.attacks import shout, toy_nulls
from wmbench.testing.harness import build, hooks_of
from wmbench.testing.toys import ToyEncoder, tiny_backbone
from wmbench.types import AttackContext, Attacked, AttackInfo, AttackInput

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "denmark_attacks.json").read_text())

WORDS = st.text(st.characters(exclude_categories=["Cs", "Zs", "Zl", "Zp", "Cc"]), min_size=1, max_size=6).filter(
    lambda word: len(word.split()) == 1
)
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", "  ", "\n", "\n\n", "\t"])), max_size=40).map(
    lambda pairs: "".join(word + gap for word, gap in pairs)
)
"""Words of any script between all sorts of white space."""


def info(name: str) -> AttackInfo:
    registered = (*wmbench_attacks.register_attacks(), *lab.register_attacks())
    return next(info for info in registered if info.name == name)


@cache
def toy_context(seed: int = 0) -> AttackContext:
    backbone = tiny_backbone()
    return AttackContext(
        seed, backbone.codec, lambda name: ToyEncoder(), lambda name: backbone, toy_nulls, lambda *_: shout
    )


def attack_all(
    name: str, texts: Sequence[AttackInput], context: AttackContext | None = None, /, **settings: Any
) -> list[Attacked]:
    return list(hooks_of(build(info(name), settings), name).attack(texts, context or toy_context()))


def attack(name: str, text: str, seed: int = 0, item_id: str = "x", **settings: Any) -> Attacked:
    return attack_all(name, [AttackInput(item_id, text)], toy_context(seed), **settings)[0]
