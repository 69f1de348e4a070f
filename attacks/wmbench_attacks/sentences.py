"""Sentences of a text, with what stands between them, so that a text can be put together again."""

from __future__ import annotations

import re

from wmbench.errors import ConfigError

Sentence = tuple[str, str]
"""A sentence and the white space behind it."""

_PARAGRAPH = re.compile(r".*?(?:\n\s*\n|\Z)", re.DOTALL)


def split_sentences(text: str) -> list[list[Sentence]]:
    """Paragraphs of sentences. All pairs joined give the text again, byte for byte."""
    try:
        import nupunkt
    except ImportError as error:
        raise ConfigError(
            "splitting sentences needs the package nupunkt", hint="pip install 'wmbench[attacks]'"
        ) from error
    paragraphs = []
    for paragraph in filter(None, _PARAGRAPH.findall(text)):
        spans = nupunkt.sent_spans(paragraph)
        paragraphs.append([_parted(paragraph[start:end]) for start, end in spans])
    return paragraphs


def _parted(piece: str) -> Sentence:
    sentence = piece.rstrip()
    return sentence, piece[len(sentence) :]
