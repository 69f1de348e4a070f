"""Sentences of a text, by nupunkt (extra `attacks`). This module is the only one that knows the library."""

from __future__ import annotations

from wmbench.errors import ConfigError
from wmbench_attacks.pieces import Pieces, cut


def sentences_of(text: str) -> Pieces:
    """Sentences and the white space behind each, so that paragraphs can be kept.

    A list marker (`2.`) belongs to what follows it.
    """
    spans: list[tuple[int, int]] = []
    held_back: int | None = None
    for start, end in _spans(text):
        start, end = _stripped(text, start, end)
        if start >= end:  # white space only
            continue
        begin = start if held_back is None else held_back
        if not any(letter.isalpha() for letter in text[start:end]) and end < len(text.rstrip()):
            held_back = begin
            continue
        held_back = None
        spans.append((begin, end))
    return cut(text, spans)


def _spans(text: str) -> list[tuple[int, int]]:
    try:
        from nupunkt import sent_spans
    except ImportError as error:
        raise ConfigError(
            "sentences cannot be told apart without nupunkt", why=str(error), hint="pip install 'wmbench[attacks]'"
        ) from error
    return [(start, end) for start, end in sent_spans(text)]


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), start + len(part.rstrip())
