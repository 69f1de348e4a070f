"""Copy-paste and crop."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attacks.helpers import attack, toy_context
from wmbench.errors import ConfigError
from wmbench.testing.harness import build, hooks_of
from wmbench.types import AttackContext, AttackInput

MARKED = [f"marked{i}" for i in range(80)]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 80),
    st.sampled_from([0.1, 0.25, 0.5, 0.75, 1.0]),
    st.integers(1, 5),
    st.integers(0, 99),
)
def test_copy_paste_keeps_the_length_and_the_order(count: int, share: float, excerpts: int, seed: int) -> None:
    words = MARKED[:count]
    result = attack("copy-paste", " ".join(words), seed, share=share, excerpts=excerpts)
    wanted = round(share * count)
    if wanted == 0 or (wanted == count and share < 1):
        assert result.error is not None
        return
    assert result.text is not None
    found = result.text.split()
    assert len(found) == count
    places = [i for i, word in enumerate(found) if word.startswith("marked")]
    assert len(places) == wanted
    numbers = [int(found[i].removeprefix("marked")) for i in places]
    assert numbers == sorted(set(numbers))
    # A new passage begins where the numbers or the places jump.
    jumps = sum(b != a + 1 or q != p + 1 for (a, b), (p, q) in zip(pairwise(numbers), pairwise(places), strict=True))
    assert jumps < min(excerpts, wanted)


def test_copy_paste_places_and_passages_vary() -> None:
    results = {attack("copy-paste", " ".join(MARKED), seed).text for seed in range(8)}
    assert len(results) == 8


def test_copy_paste_without_null_texts_says_so() -> None:
    context = AttackContext(0, toy_context().codec)
    from tests.attacks.helpers import info

    with pytest.raises(ConfigError, match="needs null texts"):
        hooks_of(build(info("copy-paste"), {})).attack([AttackInput("a", "some words")], context)


@pytest.mark.parametrize(("side", "left"), [("start", "three four"), ("end", "one two")])
def test_crop(side: str, left: str) -> None:
    assert attack("crop", " one two three four ", share=0.5, side=side).text == left


def test_crop_leaves_a_word_and_keeps_lines() -> None:
    assert attack("crop", "one\ntwo\nthree", share=1.0).text == "three"
    assert attack("crop", "one\ntwo\n\nthree", share=0.3).text == "two\n\nthree"
    assert attack("crop", "one", share=0.5).error is not None
