"""Sentences, and the white space between them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate

import pytest
from hypothesis import given, settings
from wmbench_attacks.sentences import sentences_of, split_sentences

from tests.attacks.helpers import GOLDEN, TEXTS


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        (
            "Dr. Smith measured 10 samples. The result was stable!",
            ["Dr. Smith measured 10 samples.", "The result was stable!"],
        ),
        ("He lives in the U.S. She does not.", ["He lives in the U.S.", "She does not."]),
        ("It costs e.g. 5 dollars. And more.", ["It costs e.g. 5 dollars.", "And more."]),
        ("One sentence without end", ["One sentence without end"]),
        ("Line one.\nLine two.\n\n- bullet three", ["Line one.", "Line two.", "- bullet three"]),
        ("1. First item. 2. Second item.", ["1. First item.", "2. Second item."]),
        ("A heading\n\nSome text here. More.", ["A heading", "Some text here.", "More."]),
        ("Roofs get the sun. Panels use it.", ["Roofs get the sun.", "Panels use it."]),
        ("Pay each month. (Or not.) See vol. II of it.", ["Pay each month.", "(Or not.)", "See vol. II of it."]),
        ("", []),
        (" \n ", []),
        ("The sum is 42.", ["The sum is 42."]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert list(sentences_of(text).parts) == sentences


@pytest.mark.parametrize("text", ["a" * 100_000, " " * 100_000 + "x", "Word. " * 20_000, "\n \n" * 50_000])
def test_long_inputs_take_no_time(text: str) -> None:
    """A pattern that tries every pair of places would take hours."""
    assert sentences_of(text).text == text


def borders(sentences: Iterable[str]) -> set[int]:
    """Where sentences end, counted in characters that are not white space."""
    return set(accumulate(len("".join(sentence.split())) for sentence in sentences))


@pytest.mark.parametrize("case", GOLDEN["sentence_split"], ids=lambda case: case["text"][:12] or "empty")
def test_no_worse_than_the_reference_on_its_own_cases(case: dict) -> None:
    """The reference glues sentences at abbreviations; what it splits is glued here only behind a single letter, which
    reads like an initial."""
    glued = borders(case["sentences"]) - borders(sentences_of(case["text"]).parts)
    letters = "".join(case["text"].split())
    assert all(re.search(r"\b[a-z]\W+$", letters[:end]) for end in glued)
    assert not glued or case["text"].startswith("A (b).")


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_nothing_is_lost(text: str) -> None:
    found = sentences_of(text)
    assert found.text == text
    assert all(part == part.strip() and part for part in found.parts)
    assert all(not gap.strip() for gap in (found.lead, *found.gaps))
    assert "".join(part + gap for paragraph in split_sentences(text) for part, gap in paragraph) == text


def test_paragraphs_are_kept() -> None:
    found = sentences_of("One here. Two here.\n\nThree here.")
    assert found.with_parts(["A.", "B.", "C."]).text == "A. B.\n\nC."
    assert split_sentences(" One here. Two here.\n \nThree here.") == [
        [("", " "), ("One here.", " "), ("Two here.", "\n \n")],
        [("Three here.", "")],
    ]
