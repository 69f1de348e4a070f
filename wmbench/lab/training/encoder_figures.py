"""How good an encoder is for marking and finding lab texts: the figures of its model card."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from wmbench.lab.paraphrase import Mode, paraphrase
from wmbench.lab.parse import split_sentences
from wmbench.lab.sample import sample
from wmbench.lab.training.corpus import HELD_OUT_SEEDS, prompts
from wmbench.lab.wording import HeldOut
from wmbench.runtime.codec import TokenizerCodec
from wmbench.semantics.contrastive import retrieval

Encode = Callable[[Sequence[str]], npt.NDArray[np.float32]]

UNIT = 25
CANDIDATES = 1000
UNITS_PER_DOCUMENT = 4
TARGET_WORDS = 220
SMALLEST_UNIT, LARGEST_UNIT = 12, 37
ATTACKS: dict[str, tuple[Mode, HeldOut]] = {
    "rewrite": ("rewrite", "with"),
    "rewrite, open part only": ("rewrite", "without"),
    "rewrite, held-out part only": ("rewrite", "only"),
    "compress": ("compress", "with"),
    "expand": ("expand", "with"),
}


@dataclass(frozen=True, slots=True)
class AttackFigures:
    """One attack. All cosines are means over units of 25 tokens."""

    retrieval: float
    """How often a unit's own counterpart is the nearest of 1,000 (four units per document)."""
    counterpart: float
    """Cosine of a unit and of what stands in its place in the attacked text, located by sentences."""
    same_index: float
    """Cosine of a unit and the unit with its number in the attacked text, at the size that fits its length."""
    kept: float
    """(same_index - same_prompt) / (1 - same_prompt): the share of a mark in the meaning that is still found."""


@dataclass(frozen=True, slots=True)
class EncoderFigures:
    same_prompt: float
    """Cosine of the units with one number in two documents that answer one prompt."""
    attacks: dict[str, AttackFigures]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text as ids, with the places where its sentences begin and end."""

    ids: list[int]
    borders: npt.NDArray[np.float64]

    @classmethod
    def of(cls, text: str, codec: TokenizerCodec) -> Tokens:
        sentences = split_sentences(text)
        rows = codec.encode_batch([f" {one}" if place else one for place, one in enumerate(sentences)])
        return cls([i for row in rows for i in row], np.cumsum([0.0, *(len(row) for row in rows)]))


def measure(encode: Encode, codec: TokenizerCodec, candidates: int = CANDIDATES) -> EncoderFigures:
    """Figures on fresh documents that no model was trained on."""
    texts = list(islice(_document_pairs(), candidates // UNITS_PER_DOCUMENT))
    same_prompt = _mean_cosine(encode, [pair for a, b in texts for pair in _by_index(a, b, codec, scaled=False)])
    attacks = {}
    for name, (mode, held_out) in ATTACKS.items():
        attacked = [paraphrase(text, mode, seed=1, held_out=held_out).text for text, _ in texts]
        placed, numbered = [], []
        for (text, _), other in zip(texts, attacked, strict=True):
            placed += _counterparts(text, other, codec)
            numbered += _by_index(text, other, codec, scaled=True)
        anchors, positives = (encode([pair[side] for pair in placed]) for side in (0, 1))
        same_index = _mean_cosine(encode, numbered)
        attacks[name] = AttackFigures(
            retrieval=retrieval(anchors, positives),
            counterpart=float(np.mean(np.sum(anchors * positives, axis=1))),
            same_index=same_index,
            kept=(same_index - same_prompt) / (1 - same_prompt),
        )
    return EncoderFigures(same_prompt, attacks)


def _document_pairs() -> Iterator[tuple[str, str]]:
    """Two documents for one prompt each time."""
    every_prompt = prompts()
    for place in range(0, len(HELD_OUT_SEEDS), 2):
        prompt = random.Random(place).choice(every_prompt)
        first, second = (sample(prompt, HELD_OUT_SEEDS[place + i], target_words=TARGET_WORDS).text for i in (0, 1))
        yield first, second


def _counterparts(text: str, other: str, codec: TokenizerCodec) -> list[tuple[str, str]]:
    """Some units of a text, not neighbours, with what stands in their place in the other text."""
    first, second = Tokens.of(text, codec), Tokens.of(other, codec)
    if len(first.borders) != len(second.borders):
        return []
    found = []
    for start in range(0, len(first.ids) - UNIT, 2 * UNIT)[:UNITS_PER_DOCUMENT]:
        begin, end = np.interp([start, start + UNIT], first.borders, second.borders)
        found.append(
            (codec.decode(first.ids[start : start + UNIT]), codec.decode(second.ids[round(begin) : round(end)]))
        )
    return found


def _by_index(text: str, other: str, codec: TokenizerCodec, *, scaled: bool) -> list[tuple[str, str]]:
    """Full units of a text beside the units with the same number in another, of a size that fits its length."""
    first, second = codec.encode(text), codec.encode(other)
    size = round(UNIT * len(second) / len(first)) if scaled else UNIT
    size = min(max(size, SMALLEST_UNIT), LARGEST_UNIT)
    count = min(len(first) // UNIT, len(second) // size)
    return [
        (codec.decode(first[b * UNIT : (b + 1) * UNIT]), codec.decode(second[b * size : (b + 1) * size]))
        for b in range(count)
    ]


def _mean_cosine(encode: Encode, pairs: Sequence[tuple[str, str]]) -> float:
    return float(np.mean(np.sum(encode([a for a, _ in pairs]) * encode([b for _, b in pairs]), axis=1)))
