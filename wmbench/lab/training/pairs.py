"""Pairs that teach an encoder what a watermark unit means, whatever the words: (segment, the same said otherwise).

A unit is a run of tokens that respects no sentence, and a detector finds it again only by counting tokens. So one
meaning is put into words twice, both texts are cut at arbitrary tokens, and the positive is what stands in the second
text where the first had the anchor:

- *told*: the second text is as long, shorter (short frames, no openers) or longer (long frames, openers, closers);
- *located*: most positives lie exactly where the sentences say, their borders shifted by a few tokens; the others lie
  where a detector would look, at the same share of the text, with all the drift that brings;
- *straddling*: most segments cross the border of a sentence, because most units do.

Only frames and class members that are open to everybody are used: the held-out fifth belongs to the attacks.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wmbench.lab.language import Language, Proposition, Statement, language, seeded
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
BORDER_SHIFT = 2.0
"""Standard deviation, in tokens, of the shift of each border of an exactly located positive."""
LOCATED_EXACTLY = 0.8

Telling = str
# Odds of a short, plain and long frame; then the odds of an opener and of a closer.
TELLINGS: dict[Telling, tuple[tuple[float, float, float], float, float]] = {
    "same": ((0.25, 0.45, 0.30), 0.35, 0.0),
    "shorter": ((0.85, 0.13, 0.02), 0.0, 0.0),
    "longer": ((0.02, 0.13, 0.85), 0.55, 0.25),
}
SECOND_TELLING = {"same": 0.5, "shorter": 0.25, "longer": 0.25}


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
    telling = rng.choices(list(SECOND_TELLING), weights=list(SECOND_TELLING.values()))[0]
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
    if rng.random() < LOCATED_EXACTLY:
        begin = float(np.interp(start, source.borders, target.borders)) + rng.gauss(0.0, BORDER_SHIFT)
        stop = float(np.interp(end, source.borders, target.borders)) + rng.gauss(0.0, BORDER_SHIFT)
    else:
        ratio = len(target.ids) / len(source.ids)
        begin, stop = start * ratio, end * ratio
    first = min(max(0, round(begin)), len(target.ids) - SHORTEST_POSITIVE)
    return first, max(first + SHORTEST_POSITIVE, round(stop))


def tell(
    codec: TokenizerCodec,
    statements: Sequence[Statement],
    telling: Telling,
    rng: random.Random,
    avoid: Sequence[str] = (),
) -> Told:
    """Put statements into words, where possible in other frames than the ones to avoid."""
    lab = language()
    frame_odds, opener_odds, closer_odds = TELLINGS[telling]
    chooser = Chooser(rng)
    texts: list[str] = []
    frames: list[str] = []
    for place, statement in enumerate(statements):
        proposition = propositions(lab)[statement.proposition]
        open_frames = [proposition.frames[n] for n in proposition.open_frames[rng.choices(_LENGTHS, frame_odds)[0]]]
        frame = rng.choice([one for one in open_frames if place >= len(avoid) or one.id != avoid[place]] or open_frames)
        raw = fill(frame, proposition, dict(statement.values), chooser)
        opener = _opener(lab, raw, rng) if rng.random() < opener_odds else ""
        closer = rng.choice(lab.closers) if rng.random() < closer_odds and raw.endswith(".") else ""
        texts.append((" " if place else "") + sentence(raw, opener, closer))
        frames.append(frame.id)
    rows = codec.encode_batch(texts)
    borders = np.cumsum([0.0, *(len(row) for row in rows)])
    return Told([i for row in rows for i in row], borders, frames)


_LENGTHS = ("short", "plain", "long")
_propositions: dict[str, Proposition] = {}


def propositions(lab: Language) -> dict[str, Proposition]:
    """Every proposition by its id."""
    if not _propositions:
        _propositions.update({item.id: item for topic in lab.topics.values() for item in topic.propositions})
    return _propositions


def _opener(lab: Language, raw: str, rng: random.Random) -> str:
    """Any opener: an encoder must learn that openers say next to nothing."""
    phrase = rng.choice(lab.openers[rng.choice(sorted(lab.openers))])
    return phrase if suits(phrase, raw) else ""


def write_pairs(path: Path, made: Sequence[Pair]) -> None:
    """One JSON object per line, as `wmbench train-encoder` reads it."""
    lines = (json.dumps({"anchor": p.anchor, "positive": p.positive, "group": p.document}) for p in made)
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
