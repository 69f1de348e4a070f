"""The filters against numbers made with the reference implementation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wmbench.bench.filters import FilterSettings, filter_texts, normalised, repetition

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "denmark_filters.json").read_text("utf-8"))


class Words:
    """A codec whose tokens are words."""

    size, special_ids, fingerprint = 1, frozenset[int](), "words"

    def encode(self, text: str) -> list[int]:
        return [0] * len(text.split())

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        raise NotImplementedError

    def encode_prompt(self, prompt: str) -> list[int]:
        raise NotImplementedError


def words(first: int, count: int) -> list[str]:
    return [f"t{number}" for number in range(first, first + count)]


def rows() -> dict[str, str]:
    """The texts of the golden rows, by the recipes beside them."""
    ok = " ".join(words(1000, 150))
    return {
        "ok150": ok,
        "short149": " ".join(words(1000, 149)),
        "empty": "",
        "no_field": "  \n ",
        "dup_of_ok150_with_newlines": ok.replace(" ", "\n", 3),
        "rep_over": " ".join(["t1 t2 t3 t4"] * 40),
        "falls_back_to_completion": " ".join(words(6000, 160)),
        "rep_exactly_0.2": " ".join(words(20000, 128) + words(20000, 35)),
        "rep_just_above": " ".join(words(30000, 127) + words(30000, 36)),
    }


@pytest.mark.parametrize("case", GOLDEN["repetition"], ids=lambda case: case["normalized"][:20] or "empty")
def test_repetition_and_normalisation(case: dict[str, Any]) -> None:
    assert normalised(case["text"]) == case["normalized"]
    assert repetition(case["normalized"]) == case["rep4"] == case["rep4_generation_helper"]
    assert repetition(case["normalized"], 3) == case["rep3"]


def test_repetition_of_any_length_needs_more_words_than_that() -> None:
    assert repetition("a a a a", 3) == 0.5
    assert repetition("a b c d e", 6) == repetition("a a a", 3) == repetition("", 1) == 0


def test_the_reference_keeps_and_removes_the_same() -> None:
    texts, golden = rows(), GOLDEN["filter"]
    assert list(texts) == [row["id"] for row in golden["rows"]]
    verdicts = dict(zip(texts, filter_texts(texts.values(), Words()), strict=True))
    for row in golden["rows"]:
        assert verdicts[row["id"]].tokens == row["tokens"]
        assert verdicts[row["id"]].repetition == row["rep4"]
    assert [name for name, verdict in verdicts.items() if verdict.kept] == golden["kept_ids"]
    assert Counter(verdict.reason for verdict in verdicts.values() if verdict.reason) == golden["removed"]


def test_limits_are_settings() -> None:
    loose = FilterSettings(min_tokens=149, max_repetition=1.0)
    kept = [name for name, v in zip(rows(), filter_texts(rows().values(), Words(), loose), strict=True) if v.kept]
    assert {"short149", "rep_over", "rep_just_above"} <= set(kept)
