"""What the text attacks share: texts in pieces, randomness by item, and the honest answer when nothing was changed."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from wmbench.types import Attacked


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text cut into words or sentences, with the white space between them. Nothing is lost:
    the text is lead + parts[0] + gaps[0] + parts[1] + gaps[1] + ..."""

    lead: str
    """White space before the first part."""
    parts: tuple[str, ...]
    gaps: tuple[str, ...]
    """White space behind each part."""

    def __len__(self) -> int:
        return len(self.parts)

    @property
    def text(self) -> str:
        return self.lead + "".join(part + gap for part, gap in zip(self.parts, self.gaps, strict=True))

    def with_parts(self, parts: Sequence[str]) -> Pieces:
        """Other parts in the same places, so that lines and paragraphs stay."""
        return replace(self, parts=tuple(parts))

    def without(self, gone: Collection[int]) -> Pieces:
        """Some parts removed. Where two gaps meet, the one that breaks more lines stays."""
        parts: list[str] = []
        gaps: list[str] = []
        for i, (part, gap) in enumerate(zip(self.parts, self.gaps, strict=True)):
            if i not in gone:
                parts.append(part)
                gaps.append(gap)
            elif gaps:
                gaps[-1] = max(gaps[-1], gap, key=lambda space: space.count("\n"))
        if gaps:
            gaps[-1] = self.gaps[-1]
        return Pieces(self.lead, tuple(parts), tuple(gaps))

    def span(self, start: int, end: int) -> str:
        """The text of parts start .. end, without the space around it."""
        chosen = list(zip(self.parts[start:end], self.gaps[start:end], strict=True))
        return "".join(part + gap for part, gap in chosen[:-1]) + "".join(part for part, _ in chosen[-1:])


def words_of(text: str) -> Pieces:
    """Words are what stands between white space, as in str.split()."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    return cut(text, spans)


def cut(text: str, spans: Sequence[tuple[int, int]]) -> Pieces:
    """Pieces from the spans of their parts; only white space may lie between them."""
    ends = [*(start for start, _ in spans[1:]), len(text)]
    return Pieces(
        text[: spans[0][0]] if spans else text,
        tuple(text[start:end] for start, end in spans),
        tuple(text[end:following] for (_, end), following in zip(spans, ends, strict=True)) if spans else (),
    )


def seeded(label: str) -> random.Random:
    """Python's generator, seeded by the first 8 bytes of a SHA-256: the same on every machine."""
    digest = hashlib.sha256(label.encode("utf-8", "surrogatepass")).digest()
    return random.Random(int.from_bytes(digest[:8], "big"))


def random_for(seed: int, item_id: str, purpose: str, strength: float) -> random.Random:
    """All randomness of one attack on one text. Different strengths are independent draws."""
    return seeded(f"{seed}\0{item_id}\0{purpose}\0{strength:.8f}")


def share_of(ratio: float, count: int) -> int:
    """How many of `count` things a ratio means."""
    return round(ratio * count)


def unchanged(why: str, details: dict[str, int]) -> Attacked:
    """An attack that did nothing would make a scheme look robust, so it is a failure that says why."""
    return Attacked(None, error=f"the attack changed nothing: {why}", details=details)
