"""Sentences of a text, by nupunkt (extra `attacks`). This module is the only one that knows the library."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wmbench.errors import ConfigError
from wmbench_attacks.pieces import Pieces, cut

Sentence = tuple[str, str]
"""A sentence and the white space behind it."""

_PARAGRAPH = re.compile(r"\S.*?(?=\s*\n\s*\n|\s*\Z)", re.DOTALL)
_LETTER = re.compile(r"[^\W\d_]")
_MISSED = re.compile(r"(?<![\w.])([a-z]*[aeiouy][a-z]*)[.!?][\"')\]]* +(?=[\"'(\[]?[A-Z])")
"""An ordinary word, the end of a sentence, a capital."""
_ABBREVIATIONS = frozenset(
    [
        "approx",
        "ave",
        "capt",
        "col",
        "corp",
        "dept",
        "ed",
        "eds",
        "est",
        "ext",
        "fig",
        "figs",
        "gen",
        "gov",
        "inc",
        "max",
        "min",
        "misc",
        "no",
        "nos",
        "op",
        "prof",
        "rev",
        "sec",
        "sen",
        "univ",
        "vol",
        "vols",
    ]
)


def sentences_of(text: str) -> Pieces:
    """Sentences and the white space between them. No sentence reaches over an empty line."""
    return cut(text, [span for paragraph in _PARAGRAPH.finditer(text) for span in _spans(text, *paragraph.span())])


def split_sentences(text: str) -> list[list[Sentence]]:
    """Paragraphs of sentences. All pairs joined give the text again, byte for byte."""
    found = sentences_of(text)
    paragraphs: list[list[Sentence]] = [[("", found.lead)] if found.lead else []]
    for sentence, gap in zip(found.parts, found.gaps, strict=True):
        paragraphs[-1].append((sentence, gap))
        if gap.count("\n") > 1:
            paragraphs.append([])
    return [paragraph for paragraph in paragraphs if paragraph]


def _spans(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Sentences of one paragraph. A list marker (`2.`) belongs to what follows it."""
    begin: int | None = None
    for first, last in _boundaries(text[start:end]):
        part = text[start + first : start + last]
        if not part.strip():
            continue
        begin = start + first + len(part) - len(part.lstrip()) if begin is None else begin
        if _LETTER.search(part) or start + last == end:
            yield begin, start + first + len(part.rstrip())
            begin = None


def _boundaries(paragraph: str) -> list[tuple[int, int]]:
    """nupunkt's sentences, cut further where it takes an ordinary word (sun, month) for an abbreviation."""
    try:
        from nupunkt import sent_spans
    except ImportError as error:
        raise ConfigError(
            "sentences cannot be told apart without nupunkt", why=str(error), hint="pip install 'wmbench[attacks]'"
        ) from error
    borders = {border for span in sent_spans(paragraph) for border in span}
    borders |= {match.end() for match in _MISSED.finditer(paragraph) if match[1] not in _ABBREVIATIONS}
    ordered = sorted(borders)
    return list(zip(ordered, ordered[1:], strict=False))
