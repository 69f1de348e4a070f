"""A text in pieces, each with what it says about the watermark; and how to show text that one cannot trust."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Final

from wmbench.types import Evidence, TextCodec

SHOWN_TOKENS: Final = 1500
"""A longer text is cut off on the screen, not for the verdict."""
SHADES: Final = 5
_JOINERS: Final = "\u200c\u200d"
"""Invisible, but part of the spelling of several scripts and of emoji."""


def spans(ids: Sequence[int], evidence: Sequence[Evidence], codec: TextCodec) -> list[tuple[str, Evidence | None]]:
    """The decoded text in pieces, each with its evidence (None: no evidence). Of overlapping spans the first counts."""
    ids = list(ids[:SHOWN_TOKENS])
    whole = codec.decode(ids)

    @cache
    def place(token: int) -> int:
        """Where in the text the first `token` tokens end: a codec knows texts and ids, not characters."""
        if token >= len(ids):
            return len(whole)
        head = codec.decode(ids[:token])
        length = min(len(head), len(whole))
        while length and whole[:length] != head[:length]:  # half a character at the border decodes otherwise
            length -= 1
        return length

    pieces: list[tuple[str, Evidence | None]] = []
    at = 0
    for item in sorted(evidence, key=lambda e: (e.start, e.end)):
        start, end = place(item.start), place(item.end)
        if start < at or end <= start:
            continue
        if start > at:
            pieces.append((whole[at:start], None))
        pieces.append((whole[start:end], item))
        at = end
    if at < len(whole):
        pieces.append((whole[at:], None))
    return pieces


def shades(weights: Sequence[float | None]) -> list[int | None]:
    """From -5 (strongest against the watermark) to 5 (strongest for it), relative to the text's strongest span."""
    largest = max((abs(weight) for weight in weights if weight is not None), default=0.0) or 1.0
    return [None if weight is None else round(SHADES * weight / largest) for weight in weights]


def printable(text: str) -> str:
    """Without control characters: a text to be judged may try to steer the terminal."""
    return "".join(c if not _is_hidden(c) else "\N{REPLACEMENT CHARACTER}" for c in text)


def visible(text: str) -> str:
    """For a page: what is invisible or turns the reading direction around is named; joiners of letters stay."""
    return "".join(c if not _is_hidden(c) or c in _JOINERS else f"\u27e8U+{ord(c):04X}\u27e9" for c in text)


def _is_hidden(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character)[0] == "C"
