"""Which null texts calibrate and which are held out, and of which lengths they are.

A document belongs to one side by the hash of its name, in every run and at every size: what ever calibrated a detector
is never a held-out text of another run. Both sides are stratified by length, so that neither is short by chance.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from wmbench.types import NullText, TextCodec

Side = Literal["calibration", "heldout"]
SIDES: Final[tuple[Side, Side]] = ("calibration", "heldout")
CALIBRATION_SHARE: Final = 0.7
"""Of all documents. Between the shares that the presets ask for (0.6 to 0.75)."""
STRATA: Final = 5
_CROPS: Final = 8
"""Places that are tried in a text that is too long."""


@dataclass(frozen=True, slots=True)
class Picked:
    """A null text with its place."""

    null: NullText
    side: Side
    tokens: int


def side_of(null: NullText) -> Side:
    return "calibration" if _fraction("side", null.document or null.id) < CALIBRATION_SHARE else "heldout"


def half_of(document: str) -> Side:
    """For a measurement that has both sides equally large and leaves no calibration behind."""
    return "calibration" if _fraction("half", document) < 0.5 else "heldout"


def fitted(null: NullText, ids: list[int], codec: TextCodec, lengths: tuple[int, int]) -> tuple[NullText, int] | None:
    """The text and its length; of a longer one a crop at a random place, of a length drawn evenly from the range.
    None if it is too short, or if every crop that is tried would change a token at its edges."""
    fewest, most = lengths
    if len(ids) <= most:
        return (null, len(ids)) if len(ids) >= fewest else None
    target = fewest + int(_fraction("length", null.id) * (most - fewest + 1))
    for attempt in range(_CROPS):
        start = int(_fraction(f"start {attempt}", null.id) * (len(ids) - target + 1))
        text = codec.decode(ids[start : start + target]).strip()
        if len(codec.encode(text)) == target:
            return replace(null, text=text), target
    return None


class Picker:
    """Takes null texts in order until both sides are full in every stratum of length."""

    def __init__(self, codec: TextCodec, lengths: tuple[int, int], sizes: dict[Side, int]) -> None:
        self._codec = codec
        self._lengths = lengths
        self._strata = min(STRATA, lengths[1] - lengths[0] + 1)
        self._left = {
            (side, s): sizes[side] // self._strata + (s < sizes[side] % self._strata)
            for side in SIDES
            for s in range(self._strata)
        }
        self._texts: set[str] = set()

    @property
    def is_full(self) -> bool:
        return not any(self._left.values())

    def pick(self, nulls: Iterable[NullText]) -> Iterator[Picked]:
        offered = list(nulls)
        for null, ids in zip(offered, self._codec.encode_batch([n.text for n in offered]), strict=True):
            found = fitted(null, ids, self._codec, self._lengths)
            if found is None or found[0].text in self._texts:
                continue
            text, tokens = found
            place = side_of(null), self._stratum(tokens)
            if self._left[place]:
                self._left[place] -= 1
                self._texts.add(text.text)
                yield Picked(text, place[0], tokens)

    def missing(self) -> str:
        """What is still wanted, for an error message."""
        wanted = []
        for (side, s), left in self._left.items():
            if left:
                low, high = (self._first_of(s), self._first_of(s + 1) - 1)
                wanted.append(f"{left} of {low}-{high} tokens for {side}")
        return ", ".join(wanted)

    def _stratum(self, tokens: int) -> int:
        fewest, most = self._lengths
        return (tokens - fewest) * self._strata // (most - fewest + 1)

    def _first_of(self, stratum: int) -> int:
        fewest, most = self._lengths
        return fewest + -(-stratum * (most - fewest + 1) // self._strata)


def _fraction(purpose: str, name: str) -> float:
    """A number in [0, 1) that depends on the name alone."""
    hashed = hashlib.blake2b(f"{purpose}\0{name}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(hashed, "big") / 2**64
