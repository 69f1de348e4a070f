"""Properties of every attack that needs no server and no checkpoint; the others: tests/attacks_model."""

from __future__ import annotations

from typing import Any

import pytest
import wmbench_attacks
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.attacks.helpers import attack
from tests.attacks.properties import (
    ANY_TEXT,
    DOCUMENT_LLM,
    ENGINES,
    OFFLINE,
    PARAPHRASERS,
    SEEDS,
    SENTENCE_LLM,
    assert_honest,
    assert_sound,
)
from wmbench.lab import plugin as lab
from wmbench.testing.attacks import HARD_TEXTS

SMALL: dict[str, dict[str, Any]] = {
    "substitute": {"context": 4, "top_k": 20, "ratio": 0.1},
    "remask": {"tokens_per_step": 256, "min_similarity": 0.2},
}
"""Settings that spare the model."""
CHANGING = [name for name in OFFLINE if name != "identity"]


@pytest.mark.parametrize("name", CHANGING)
@settings(max_examples=20, deadline=None)
@given(text=ANY_TEXT, seed=SEEDS)
@example(text="", seed=0)
@example(text="word", seed=0)
@example(text="same same same", seed=0)
def test_any_text(name: str, text: str, seed: int) -> None:
    assert_sound(lambda: attack(name, text, seed, **SMALL.get(name, {})), text)


FAST = [
    (name, kind)
    for name in CHANGING
    for kind in HARD_TEXTS
    if name not in SMALL and not (name.startswith("lab-") and kind == "100 kB")
]
"""Small ones meet these texts in their contract; the lab's read 100 kB in the slow test below."""


@pytest.mark.parametrize(("name", "kind"), FAST)
def test_hard_texts(name: str, kind: str) -> None:
    assert_sound(lambda: attack(name, HARD_TEXTS[kind]), HARD_TEXTS[kind])


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CHANGING if name.startswith("lab-")])
def test_the_lab_reads_100_kb_sentence_by_sentence(name: str) -> None:
    assert_honest(attack(name, HARD_TEXTS["100 kB"]), HARD_TEXTS["100 kB"])


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_identity_leaves_every_byte(text: str) -> None:
    assert attack("identity", text).text == text


def test_no_attack_is_left_out() -> None:
    registered = [info.name for info in (*wmbench_attacks.register_attacks(), *lab.register_attacks())]
    assert sorted(registered) == sorted((*OFFLINE, *SENTENCE_LLM, *DOCUMENT_LLM, *PARAPHRASERS, *ENGINES))
