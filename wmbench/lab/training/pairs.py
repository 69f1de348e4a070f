"""Pairs that teach an encoder what a watermark unit means, whatever the words: (segment, the same said otherwise).

A unit is a run of tokens that respects no sentence, and a detector finds it again only by counting tokens. So one
meaning is put into words twice, both texts are cut at arbitrary tokens, and the positive is what stands in the second
text where the first had the anchor:

- *told*: the second text is as long, shorter (short frames, no openers) or longer (long frames, openers, closers);
- *located*: sentence borders tell where the second text says the same; each border is then shifted by a few tokens.
  (Positives at the same share of the whole text, where a detector looks, drift so far that many share only the topic;
  with many of them the encoder learned the topic instead of the meaning. Tried: see the model card.)
- *straddling*: most segments cross the border of a sentence, because most units do.

Only frames and class members that are open to everybody are used: the held-out fifth belongs to the attacks.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from wmbench.lab.language import LENGTHS, Language, Proposition, Statement, language, seeded
from wmbench.lab.realise import Chooser, fill, sentence, suits
from wmbench.lab.sample import sample
from wmbench.lab.training.corpus import DOCUMENT_WORDS, TRAIN_SEEDS, prompts
from wmbench.runtime.codec import TokenizerCodec
from wmbench.types import FloatArray

MOST_WORDS = 25
"""Of an anchor, as in the paper."""
ANCHOR_TOKENS = (10, 29)
"""A unit of 25 tokens has about 22 words; 29 tokens are about 25."""
SHORTEST_POSITIVE = 6
BORDER_SHIFT = 4.0
"""Standard deviation, in tokens, of each border of a positive: a detector that counts tokens misses by as much."""


@dataclass(frozen=True, slots=True)
class Telling:
    """How wordy a text is."""

    frame_odds: tuple[float, float, float]
    """Of a short, a plain and a long frame."""
    opener_odds: float
    closer_odds: float
    second_odds: float
    """How often the second text of a document is told so; the first is always told as `same`."""


TELLINGS = {
    "same": Telling((0.25, 0.45, 0.30), 0.35, 0.0, second_odds=0.5),
    "shorter": Telling((0.85, 0.13, 0.02), 0.0, 0.0, second_odds=0.25),
    "longer": Telling((0.02, 0.13, 0.85), 0.55, 0.25, second_odds=0.25),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two segments that say the same."""

    anchor: str
    positive: str
    document: int
    """Pairs of one document share it; they are each other's hardest negatives."""


@dataclass(frozen=True, slots=True)
class Told:
    """A meaning in words: its tokens, where each sentence begins (and the last one ends), and the frames used."""

    ids: list[int]
    borders: FloatArray
    frames: list[str]


def pairs(codec: TokenizerCodec, count: int, seed: int = 0, documents: Sequence[int] = TRAIN_SEEDS) -> Iterator[Pair]:
    """`count` pairs from fresh documents; the seed decides how these are told and cut."""
    every_prompt = prompts()
    made = 0
    for number in documents:
        rng = seeded("pairs", seed, number)
        prompt = every_prompt[rng.randrange(len(every_prompt))]
        statements = sample(prompt, number, target_words=DOCUMENT_WORDS).meaning.statements
        for pair in document_pairs(codec, statements, number, rng):
            yield pair
            made += 1
            if made == count:
                return


def document_pairs(
    codec: TokenizerCodec, statements: Sequence[Statement], document: int, rng: random.Random
) -> Iterator[Pair]:
    first = tell(codec, statements, "same", rng)
    telling = rng.choices(list(TELLINGS), [how.second_odds for how in TELLINGS.values()])[0]
    second = tell(codec, statements, telling, rng, avoid=first.frames)
    # Shorter and longer texts are anchors as often as positives.
    source, target = (first, second) if rng.random() < 0.5 else (second, first)
    for start, end in segments(len(source.ids), rng):
        anchor = codec.decode(source.ids[start:end])
        positive = codec.decode(target.ids[slice(*counterpart(source, target, start, end, rng))])
        if 0 < len(anchor.split()) <= MOST_WORDS and positive and positive != anchor:
            yield Pair(anchor, positive, document)


def segments(length: int, rng: random.Random) -> Iterator[tuple[int, int]]:
    """Segments one after the other: if they overlapped, a batch would push apart what says the same."""
    start = rng.randrange(ANCHOR_TOKENS[0])
    while (end := start + rng.randint(*ANCHOR_TOKENS)) <= length:
        yield start, end
        start = end


def counterpart(source: Told, target: Told, start: int, end: int, rng: random.Random) -> tuple[int, int]:
    """Where the second text says what the first says between two tokens."""
    begin, stop = np.interp([start, end], source.borders, target.borders)
    first = min(max(0, round(begin + rng.gauss(0.0, BORDER_SHIFT))), len(target.ids) - SHORTEST_POSITIVE)
    return first, max(first + SHORTEST_POSITIVE, round(stop + rng.gauss(0.0, BORDER_SHIFT)))


def tell(
    codec: TokenizerCodec,
    statements: Sequence[Statement],
    telling: str,
    rng: random.Random,
    avoid: Sequence[str] = (),
) -> Told:
    """Put statements into words, where possible in other frames than the ones to avoid."""
    lab = language()
    how = TELLINGS[telling]
    chooser = Chooser(rng)
    texts: list[str] = []
    frames: list[str] = []
    for place, statement in enumerate(statements):
        proposition = propositions()[statement.proposition]
        open_frames = [proposition.frames[n] for n in proposition.open_frames[rng.choices(LENGTHS, how.frame_odds)[0]]]
        frame = rng.choice([one for one in open_frames if place >= len(avoid) or one.id != avoid[place]] or open_frames)
        raw = fill(frame, proposition, dict(statement.values), chooser)
        opener = _opener(lab, raw, rng) if rng.random() < how.opener_odds else ""
        closer = rng.choice(lab.closers) if rng.random() < how.closer_odds and raw.endswith(".") else ""
        texts.append((" " if place else "") + sentence(raw, opener, closer))
        frames.append(frame.id)
    rows = codec.encode_batch(texts)
    borders = np.cumsum([0.0, *(len(row) for row in rows)])
    return Told([i for row in rows for i in row], borders, frames)


@lru_cache(maxsize=1)
def propositions() -> dict[str, Proposition]:
    """Every proposition by its id."""
    return {item.id: item for topic in language().topics.values() for item in topic.propositions}


def _opener(lab: Language, raw: str, rng: random.Random) -> str:
    """Any opener: an encoder must learn that openers say next to nothing."""
    phrase = rng.choice(lab.openers[rng.choice(sorted(lab.openers))])
    return phrase if suits(phrase, raw) else ""


def write_pairs(path: Path, made: Sequence[Pair]) -> None:
    """One JSON object per line, as `wmbench train-encoder` reads it."""
    lines = (json.dumps({"anchor": p.anchor, "positive": p.positive, "group": p.document}) for p in made)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
