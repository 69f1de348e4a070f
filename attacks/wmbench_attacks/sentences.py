"""Sentences of a text, by nupunkt (extra `attacks`). This module is the only one that knows the library."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from itertools import pairwise

from wmbench.errors import ConfigError
from wmbench_attacks.pieces import Pieces, cut

Sentence = tuple[str, str]
"""A sentence and the white space behind it."""

_LETTER = re.compile(r"[^\W\d_]")
_VOWEL = re.compile(r"[aeiouy]")
_WORD_AND_CAPITAL = re.compile(r"(?<![\w.])([a-z]{2,20})[.!?][\"')\]]{0,3} {1,3}(?=[\"'(\[]?[A-Z])")
"""A word in small letters, the end of a sentence, a capital."""
_ABBREVIATIONS = re.compile(
    "approx|ave|capt|col|corp|dept|eds?|est|ext|figs?|gen|gov|inc|max|min|misc|nos?|op|prof|rev|sec|sen|univ|vols?"
)


def require_splitter() -> None:
    """Fails when the library is missing."""
    if importlib.util.find_spec("nupunkt") is None:
        raise ConfigError(
            "sentences cannot be split without the package nupunkt", hint="pip install 'wmbench[attacks]'"
        )


def sentences_of(text: str) -> Pieces:
    """Sentences and the white space between them. No sentence reaches over an empty line."""
    return cut(text, [span for start, end in _paragraphs(text) for span in _spans(text, start, end)])


def split_sentences(text: str) -> list[list[Sentence]]:
    """Paragraphs of sentences. All pairs joined give the text again, byte for byte."""
    found = sentences_of(text)
    paragraphs: list[list[Sentence]] = [[("", found.lead)] if found.lead else []]
    for sentence, gap in zip(found.parts, found.gaps, strict=True):
        paragraphs[-1].append((sentence, gap))
        if gap.count("\n") > 1:
            paragraphs.append([])
    return [paragraph for paragraph in paragraphs if paragraph]


def _paragraphs(text: str) -> Iterator[tuple[int, int]]:
    """Stretches without an empty line."""
    start: int | None = None
    at = end = 0
    for line in text.splitlines(keepends=True):
        at += len(line)
        if line.strip():
            start, end = at - len(line) if start is None else start, at
        elif start is not None:
            yield start, end
            start = None
    if start is not None:
        yield start, end


def _spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Sentences of one paragraph. A list marker (`2.`) belongs to what follows it."""
    begin: int | None = None
    stop = start
    for first, last in _boundaries(text[start:end]):
        part = text[start + first : start + last]
        if not part.strip():
            continue
        begin = start + first + len(part) - len(part.lstrip()) if begin is None else begin
        stop = start + first + len(part.rstrip())
        if _LETTER.search(part):
            yield begin, stop
            begin = None
    if begin is not None:
        yield begin, stop


def _boundaries(paragraph: str) -> list[tuple[int, int]]:
    """nupunkt's sentences, cut further where it takes an ordinary word (sun, month) for an abbreviation."""
    require_splitter()
    from nupunkt import sent_spans

    borders = {border for span in sent_spans(paragraph) for border in span}
    for match in _WORD_AND_CAPITAL.finditer(paragraph):
        if _VOWEL.search(match[1]) and not _ABBREVIATIONS.fullmatch(match[1]):
            borders.add(match.end())
    return list(pairwise(sorted(borders)))
