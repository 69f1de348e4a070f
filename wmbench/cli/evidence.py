"""A text with its evidence, for a terminal: green spans speak for the watermark, red ones against it."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wmbench.types import Evidence, TextCodec

if TYPE_CHECKING:
    from rich.text import Text

SHOWN_TOKENS = 1500
"""A longer text is cut off on the screen, not for the verdict."""
_SHADES = 5


def spans(ids: Sequence[int], evidence: Sequence[Evidence], codec: TextCodec) -> list[tuple[str, Evidence | None]]:
    """The decoded text in pieces, each with its evidence (None: no evidence). Of overlapping spans the first counts."""
    ids = list(ids[:SHOWN_TOKENS])
    whole = codec.decode(ids)
    pieces: list[tuple[str, Evidence | None]] = []
    at = 0
    for item in sorted(evidence, key=lambda e: (e.start, e.end)):
        start, end = (_place(ids, token, whole, codec) for token in (item.start, item.end))
        if start < at or end <= start:
            continue
        if start > at:
            pieces.append((whole[at:start], None))
        pieces.append((whole[start:end], item))
        at = end
    if at < len(whole):
        pieces.append((whole[at:], None))
    return pieces


def _place(ids: Sequence[int], token: int, whole: str, codec: TextCodec) -> int:
    """Where in the text the first `token` tokens end: a codec knows texts and ids, not characters."""
    if token >= len(ids):
        return len(whole)
    head = codec.decode(ids[:token])
    length = min(len(head), len(whole))
    while length and whole[:length] != head[:length]:  # half a character at the border decodes otherwise
        length -= 1
    return length


def coloured(pieces: Sequence[tuple[str, Evidence | None]]) -> Text:
    from rich.text import Text

    largest = max((abs(item.weight) for _, item in pieces if item is not None), default=0.0) or 1.0
    text = Text()
    for piece, item in pieces:
        text.append(printable(piece), _style(item.weight / largest) if item is not None else "dim")
    return text


def _style(weight: float) -> str:
    shade = round(abs(weight) * _SHADES)
    if shade == 0:
        return ""
    strength = 40 + 25 * shade
    return f"on rgb(0,{strength},0)" if weight > 0 else f"on rgb({strength},0,0)"


def printable(text: str) -> str:
    """Without control characters: a text to be judged may try to steer the terminal."""
    return "".join(c if c in "\n\t" or unicodedata.category(c)[0] != "C" else "\N{REPLACEMENT CHARACTER}" for c in text)
