"""Training pairs of the lab: same meaning, other words, arbitrary borders, nothing held out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from wmbench.lab.language import language, seeded
from wmbench.lab.sample import sample
from wmbench.lab.training.corpus import HELD_OUT_SEEDS
from wmbench.lab.training.pairs import MOST_WORDS, SHORTEST_POSITIVE, Pair, counterpart, pairs, tell
from wmbench.runtime.codec import TokenizerCodec


@pytest.fixture(scope="module")
def codec(tokenizer_file: Path) -> TokenizerCodec:
    """Any byte-level tokenizer will do: what is tested here does not depend on the pieces."""
    return TokenizerCodec.from_file(tokenizer_file)


@pytest.fixture(scope="module")
def made(codec: TokenizerCodec) -> list[Pair]:
    return list(pairs(codec, 200))


def test_pairs_repeat_and_depend_on_the_seed(codec: TokenizerCodec, made: list[Pair]) -> None:
    assert list(pairs(codec, 30)) == made[:30]
    assert list(pairs(codec, 30, seed=1)) != made[:30]
    assert not {p.anchor for p in pairs(codec, 30, documents=HELD_OUT_SEEDS)} & {p.anchor for p in made}


def test_anchors_are_short_and_never_copied(made: list[Pair]) -> None:
    for pair in made:
        assert 0 < len(pair.anchor.split()) <= MOST_WORDS
        assert pair.positive
        assert pair.anchor != pair.positive


def test_nothing_held_out_is_used(codec: TokenizerCodec) -> None:
    lab = language()
    reserved = {f.id for t in lab.topics.values() for p in t.propositions for f in p.frames if f.held_out}
    for number in range(20):
        statements = sample(list(lab.topics)[number], number).meaning.statements
        for telling in ("same", "shorter", "longer"):
            assert not reserved & set(tell(codec, statements, telling, seeded(number)).frames)


def test_tellings_differ_in_length_and_frames(codec: TokenizerCodec) -> None:
    statements = sample(next(iter(language().topics)), 5, target_words=250).meaning.statements
    shorter, same, longer = (tell(codec, statements, telling, seeded(1)) for telling in ("shorter", "same", "longer"))
    assert len(shorter.ids) < 0.85 * len(same.ids) < 0.85 * 0.9 * len(longer.ids)
    again = tell(codec, statements, "same", seeded(2), avoid=same.frames)
    assert sum(a == b for a, b in zip(same.frames, again.frames, strict=True)) <= 2


def test_tokens_are_those_of_the_whole_text(codec: TokenizerCodec) -> None:
    statements = sample(next(iter(language().topics)), 6).meaning.statements
    told = tell(codec, statements, "longer", seeded(3))
    assert codec.encode(codec.decode(told.ids)) == told.ids
    assert told.borders[-1] == len(told.ids)


def test_counterparts_stay_inside_and_near(codec: TokenizerCodec) -> None:
    statements = sample(next(iter(language().topics)), 7).meaning.statements
    source, target = (tell(codec, statements, telling, seeded(4)) for telling in ("same", "shorter"))
    rng = seeded(5)
    for start, size in itertools.product(range(0, len(source.ids) - 30, 7), (10, 29)):
        first, last = counterpart(source, target, start, start + size, rng)
        assert 0 <= first <= len(target.ids) - SHORTEST_POSITIVE
        assert last - first >= SHORTEST_POSITIVE


def test_figures_of_an_encoder_that_counts_words(codec: TokenizerCodec) -> None:
    import zlib

    import numpy as np

    from wmbench.lab.training.encoder_figures import ATTACKS, measure

    def encode(texts: Sequence[str]) -> np.ndarray:
        rows = np.zeros((len(texts), 512), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split():
                row[zlib.crc32(word.encode()) % 512] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    figures = measure(encode, codec, candidates=16)
    assert set(figures.attacks) == set(ATTACKS)
    rewrite = figures.attacks["rewrite"]
    assert 0 < figures.same_prompt < rewrite.same_index < rewrite.counterpart < 1
    assert rewrite.retrieval > 1 / 16
