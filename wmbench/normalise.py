"""Undoes noise that a reader does not see, before a text is tokenised for detection (`--normalise`).

Letters of other alphabets that look like Latin ones, invisible characters, odd and repeated spaces, compatibility forms
(full-width letters, ligatures). Texts in other alphabets keep their letters. Normalising twice changes nothing more.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

RULE: Final = "nfkc, look-alikes, invisible characters, spaces: 1"
"""Part of the identity of features that were computed from normalised texts."""

LOOKALIKES: Final[dict[str, str]] = {
    # Latin letter: Cyrillic, Greek and Armenian letters that look like it
    "a": "\u0430",
    "c": "\u0441",
    "d": "\u0501",
    "e": "\u0435",
    "h": "\u04bb",
    "i": "\u0456",
    "j": "\u0458",
    "l": "\u04cf",
    "o": "\u043e\u03bf\u0585",
    "p": "\u0440",
    "q": "\u051b",
    "s": "\u0455",
    "v": "\u03bd",
    "w": "\u051d",
    "x": "\u0445",
    "y": "\u0443",
    "A": "\u0410\u0391",
    "B": "\u0412\u0392",
    "C": "\u0421",
    "E": "\u0415\u0395",
    "H": "\u041d\u0397",
    "I": "\u0406\u0399",
    "J": "\u0408",
    "K": "\u041a\u039a",
    "M": "\u041c\u039c",
    "N": "\u039d",
    "O": "\u041e\u039f",
    "P": "\u0420\u03a1",
    "S": "\u0405",
    "T": "\u0422\u03a4",
    "X": "\u0425\u03a7",
    "Y": "\u04ae\u03a5",
    "Z": "\u0396",
}

_TO_LATIN: Final = str.maketrans({other: latin for latin, others in LOOKALIKES.items() for other in others})
_LETTERS: Final = re.compile(r"(?:[^\W\d_]|[\u0300-\u036f])+")
"""A run of letters, with their accents apart."""
_LATIN: Final = re.compile(r"[A-Za-z\u00c0-\u024f]")
_INVISIBLE: Final = re.compile(r"[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_JOINERS_IN_LATIN: Final = re.compile(
    r"(?<=[\x00-\u024f])[\u200c\u200d]+|(?<![\u200c\u200d])[\u200c\u200d]+(?=[\x00-\u024f]|$)"
)
"""Joiners shape Persian and Indic words and tie emoji together; among Latin letters they do nothing."""


def normalise(text: str) -> str:
    """The text as a reader sees it."""
    text = unicodedata.normalize("NFKD", text)  # accents apart, so that a look-alike under an accent is recognised
    text = _JOINERS_IN_LATIN.sub("", _INVISIBLE.sub("", text))
    text = _LETTERS.sub(lambda word: _latin(word[0]) if _LATIN.search(word[0]) else word[0], text)
    if _is_latin(text):
        text = _LETTERS.sub(lambda word: _latin(word[0]) if _consists_of_lookalikes(word[0]) else word[0], text)
    return _plain_spaces(unicodedata.normalize("NFKC", text))


def _latin(word: str) -> str:
    return word.translate(_TO_LATIN)


def _consists_of_lookalikes(word: str) -> bool:
    return all(ord(letter) in _TO_LATIN or unicodedata.combining(letter) for letter in word)


def _is_latin(text: str) -> bool:
    """Whether there are at least as many Latin letters as letters that cannot be mistaken for Latin ones."""
    letters = [letter for letter in text if letter.isalpha()]
    latin = sum(_LATIN.match(letter) is not None for letter in letters)
    mistakable = sum(ord(letter) in _TO_LATIN for letter in letters)
    return latin >= len(letters) - latin - mistakable


def _plain_spaces(text: str) -> str:
    """One space between words, at most one empty line between paragraphs, no space at the borders of lines."""
    lines = [" ".join(line.split()) for line in text.strip().splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
