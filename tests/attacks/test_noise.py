"""Noise that a reader does not see, and the normaliser that undoes it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attacks.helpers import TEXTS, attack
from wmbench.normalise import LOOKALIKES, normalise

quick = settings(max_examples=60, deadline=None)
ENGLISH = (
    "The café opens at eight.  We arrive early, because seats are few.\n\n"
    "Jack pays; Zoë takes the window. Who goes next? Xavier!"
)


@pytest.mark.parametrize("name", ["homoglyph", "whitespace"])
@pytest.mark.parametrize("ratio", [0.05, 0.3, 1.0])
def test_the_normaliser_undoes_the_attack(name: str, ratio: float) -> None:
    for seed in range(10):
        noisy = attack(name, ENGLISH, seed, ratio=ratio).text
        assert noisy is not None
        assert noisy != ENGLISH
        assert normalise(noisy) == normalise(ENGLISH)


@pytest.mark.parametrize("kind", ["spaces", "invisible"])
def test_kinds_of_whitespace(kind: str) -> None:
    noisy = attack("whitespace", "one two three", ratio=1.0, kind=kind).text
    assert noisy is not None
    letters = "".join(c for c in noisy if c.isascii() and not c.isspace())
    assert letters == "onetwothree"
    assert (noisy.replace("\u200b", "").replace("\u2060", "").replace("\ufeff", "") == "one two three") == (
        kind == "invisible"
    )


@quick
@given(TEXTS, st.sampled_from(["homoglyph", "whitespace"]), st.integers(0, 9))
def test_noise_is_the_stated_share_of_valid_unicode(text: str, name: str, seed: int) -> None:
    result = attack(name, text, seed, ratio=0.5)
    places = result.details["letters" if name == "homoglyph" else "places"]
    if round(0.5 * places) == 0:
        assert result.error is not None
        return
    assert result.text is not None
    assert result.text.encode()
    if name == "homoglyph":
        assert sum(a != b for a, b in zip(text, result.text, strict=True)) == round(0.5 * places)


def test_no_lookalike_stands_for_two_letters() -> None:
    others = "".join(LOOKALIKES.values())
    assert len(set(others)) == len(others)
    assert not any(letter.isascii() for letter in others)


def test_other_alphabets_keep_their_letters() -> None:
    for text in ("Я люблю сор и рост, а он поёт.", "Ο Οδυσσέας νοσταλγεί.", "שלום עולם", "これは文章です。"):
        assert normalise(text) == text


def test_joiners_that_shape_words_and_emoji_stay() -> None:
    for text in ("می\u200cخواهم", "👩\u200d👩\u200d👧\u200d👦 hi"):
        assert normalise(text) == text
    assert normalise("wa\u200dter\u200c") == "water"


def test_long_inputs_take_no_time() -> None:
    """A pattern that tries every pair of places would take hours."""
    for text in ("\u200d" * 100_000 + "👩", " \n" * 100_000, "\u200b" * 100_000, "a\u0301" * 50_000):
        normalise(text)
    noisy = attack("substitute", "x" + "-" * 100_000 + "x w3 w4", ratio=1.0, top_k=60)
    assert noisy.text is not None


def test_spaces_and_lines() -> None:
    assert normalise(" a \u00a0 b\t\nc\n\n\n\nd \n") == "a b\nc\n\nd"


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalise(text)
    assert normalise(once) == once
