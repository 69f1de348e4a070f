"""Deletion and swap: golden draws, exact shares, and what stays."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attacks.helpers import GOLDEN, TEXTS, attack

RATIOS = st.sampled_from([0.1, 0.2, 0.3, 0.5, 1.0])
quick = settings(max_examples=60, deadline=None)


DELETIONS = [case for case in GOLDEN["token_attacks"] if case["attack"] == "deletion"]


@pytest.mark.parametrize("case", DELETIONS, ids=lambda case: f"{case['ratio']}")
def test_golden_deletions(case: dict) -> None:
    text = " ".join(f"w{i}" for i in range(case["n_words"]))
    result = attack("delete", text, case["seed"], case["row_id"], ratio=case["ratio"])
    assert result.text == " ".join(case["result"])
    assert result.details["deleted"] == case["changed"]


@quick
@given(TEXTS, RATIOS, st.integers(0, 99))
def test_deletion_removes_exactly_the_share(text: str, ratio: float, seed: int) -> None:
    words = text.split()
    wanted = min(round(ratio * len(words)), len(words) - 1)
    result = attack("delete", text, seed, ratio=ratio)
    if wanted <= 0:
        assert result.error is not None
        return
    assert result.text is not None
    left = result.text.split()
    assert len(left) == len(words) - wanted
    rest = iter(words)
    assert all(word in rest for word in left), "the others keep their order"
    assert result.text.encode()


@quick
@given(TEXTS, RATIOS, st.integers(0, 99))
def test_swap_keeps_the_words_and_the_lines(text: str, ratio: float, seed: int) -> None:
    words = text.split()
    result = attack("swap", text, seed, ratio=ratio)
    touched = min(2 * -(-round(ratio * len(words)) // 2), len(words) // 2 * 2)
    if not touched or len(set(words)) == 1:
        assert result.error is not None
        return
    if result.text is None:  # equal neighbours that change places change nothing
        assert len(set(words)) < len(words)
        return
    swapped = result.text.split()
    assert Counter(swapped) == Counter(words)
    moved = [i for i, pair in enumerate(zip(words, swapped, strict=True)) if pair[0] != pair[1]]
    assert len(moved) <= touched == result.details["swapped"]
    if len(set(words)) == len(words):
        assert len(moved) == touched
    assert [c for c in result.text if c.isspace()] == [c for c in text if c.isspace()]


def test_every_pair_can_be_drawn() -> None:
    seen = {attack("swap", "a b c d e", seed, ratio=0.2).text for seed in range(60)}
    assert seen == {"b a c d e", "a c b d e", "a b d c e", "a b c e d"}


def test_paragraphs_survive_deletion() -> None:
    text = "one two.\n\nthree four.\n\nfive six."
    for seed in range(20):
        left = attack("delete", text, seed, ratio=0.3).text
        assert left is not None
        assert left.count("\n\n") >= len({text[: text.index(word)].count("\n\n") for word in left.split()}) - 1
        assert left == left.strip()


@pytest.mark.parametrize("name", ["delete", "swap", "crop", "homoglyph", "whitespace", "substitute", "remask"])
def test_strength_zero_changes_no_byte(name: str) -> None:
    text = "  Two words.\r\n\r\nand\u00a0more \n"
    strength = "share" if name == "crop" else "ratio"
    assert attack(name, text, **{strength: 0}).text == text


@pytest.mark.parametrize("name", ["delete", "swap"])
def test_the_draw_depends_on_seed_and_id_alone(name: str) -> None:
    text = " ".join(f"w{i}" for i in range(40))
    base = attack(name, text, 1, "a").text
    assert attack(name, text, 1, "a").text == base
    assert attack(name, text, 2, "a").text != base
    assert attack(name, text, 1, "b").text != base


@pytest.mark.parametrize("name", ["delete", "swap", "crop", "homoglyph", "whitespace", "remask", "substitute"])
@pytest.mark.parametrize("text", ["", " ", "…"])
def test_nothing_to_change_is_an_error_not_a_success(name: str, text: str) -> None:
    result = attack(name, text)
    assert result.text is None or name == "remask"  # a model may find another token for a single sign
    assert result.text is not None or "changed nothing" in (result.error or "")
