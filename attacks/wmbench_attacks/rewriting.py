"""What attacks have in common that say a text again piece by piece: cut it, have equal pieces said again once, and put
the text together with the white space it had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from wmbench.types import Attacked
from wmbench_attacks.sentences import split_sentences

Unit = Literal["sentence", "document"]


@dataclass(frozen=True, slots=True)
class Piece:
    """What is said again at once, and the white space around it, which stays."""

    before: str
    text: str
    after: str

    @property
    def has_words(self) -> bool:
        return any(character.isalnum() for character in self.text)


@dataclass(frozen=True, slots=True)
class Said:
    """A piece in other words, or the reason why there is none."""

    text: str | None
    error: str | None = None


SaidAny = TypeVar("SaidAny", bound=Said)


def pieces_of(text: str, unit: Unit) -> list[Piece]:
    """All pieces joined give the text. One that is not valid Unicode has none: it can be neither sent nor written."""
    if not is_unicode(text):
        return []
    parts = [text]
    if unit == "sentence":
        parts = [sentence + behind for paragraph in split_sentences(text) for sentence, behind in paragraph]
    return [_piece(part) for part in parts]


def to_say(documents: Sequence[Sequence[Piece]]) -> list[str]:
    """Every piece with words, equal ones once."""
    return list(dict.fromkeys(piece.text for pieces in documents for piece in pieces if piece.has_words))


def in_place(pieces: Sequence[Piece], said: Mapping[str, SaidAny]) -> list[SaidAny]:
    """Of every piece with words what became of it."""
    return [said[piece.text] for piece in pieces if piece.has_words]


def put_together(pieces: Sequence[Piece], said: Sequence[Said], details: Mapping[str, Any]) -> Attacked:
    """The new text, or the reason why there is none. `said` has one entry for every piece with words, in order."""
    spoken = [piece for piece in pieces if piece.has_words]
    if not spoken:
        return Attacked(None, error="there is nothing to rewrite: the text has no words, or is not valid Unicode")
    found = {"pieces": len(spoken), **details}
    for number, (piece, result) in enumerate(zip(spoken, said, strict=True), start=1):
        if result.text is None:
            where = f"piece {number} of {len(spoken)} ({_shortened(piece.text)!r}): "
            return Attacked(None, error=where + (result.error or "no reason given"), details=found)
    new = [result.text or "" for result in said]
    found["unchanged"] = sum(_words(piece.text) == _words(now) for piece, now in zip(spoken, new, strict=True))
    if found["unchanged"] == len(spoken):
        # An attack that did nothing would make a scheme look robust.
        return Attacked(None, error="nothing was changed", details=found)
    following = iter(new)
    text = "".join(
        piece.before + (next(following) if piece.has_words else piece.text) + piece.after for piece in pieces
    )
    found["words_before"] = sum(len(piece.text.split()) for piece in pieces)
    found["words_after"] = len(text.split())
    return Attacked(text, details=found)


def is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _piece(part: str) -> Piece:
    text = part.strip()
    start = part.index(text)
    return Piece(part[:start], text, part[start + len(text) :])


def _words(text: str) -> list[str]:
    return text.casefold().split()


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
