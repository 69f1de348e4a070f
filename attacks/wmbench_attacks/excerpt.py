"""Excerpts: a marked passage inside unmarked text (copy-paste), and texts whose beginning or end is missing (crop)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal

from pydantic import Field

from wmbench import hookimpl
from wmbench.errors import ConfigError
from wmbench.types import AttackContext, Attacked, AttackInput
from wmbench_attacks.config import AttackConfig
from wmbench_attacks.pieces import random_for, share_of, unchanged, words_of

_FILLER_TEXTS = 100
"""Unmarked texts that are drawn from; a text that needs more words meets some of them twice."""


class CopyPasteConfig(AttackConfig):
    """Settings of `copy-paste`."""

    share: float = Field(0.25, gt=0, le=1, description="Share of the words of the result that is from the text.")
    excerpts: int = Field(1, ge=1, description="In how many passages, at random places, they appear.")
    filler: str = Field("lab", description="Null texts that the rest is taken from.")

    @property
    def uses(self) -> Mapping[str, Mapping[str, dict[str, Any]]]:
        return {"nulls": {self.filler: {}}}


class CropConfig(AttackConfig):
    """Settings of `crop`."""

    share: float = Field(0.3, ge=0, le=1, description="Share of the words that is cut off; one word always stays.")
    side: Literal["start", "end"] = Field("start", description="Where it is cut off.")


class CopyPaste:
    """Puts passages of the text into unmarked text. The result has as many words as the text."""

    def __init__(self, config: CopyPasteConfig | None = None) -> None:
        self.config = config or CopyPasteConfig()
        self._filler: list[list[str]] = []

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        filler = self._unmarked(context) if texts else []
        return [self._one(item, context.seed, filler) for item in texts]

    def _unmarked(self, context: AttackContext) -> list[list[str]]:
        """Words of the unmarked texts; they are the same in every call."""
        if not self._filler:
            if context.load_nulls is None:
                raise ConfigError("copy-paste needs null texts, and here are none to load")
            self._filler = [null.text.split() for null in context.load_nulls(self.config.filler, _FILLER_TEXTS)]
            self._filler = [words for words in self._filler if words]
        if not self._filler:
            raise ConfigError(
                f"null set {self.config.filler!r} holds no text",
                hint="choose another one with -A copy-paste.filler=...",
            )
        return self._filler

    def _one(self, item: AttackInput, seed: int, filler: list[list[str]]) -> Attacked:
        words = words_of(item.text)
        total = len(words)
        marked = share_of(self.config.share, total)
        excerpts = min(self.config.excerpts, marked)
        details = {"words": total, "marked": marked, "excerpts": excerpts}
        if not marked:
            return Attacked(None, f"{self.config.share:.0%} of {total} words is none", details)
        if marked == total:
            if self.config.share < 1:
                return unchanged(f"{self.config.share:.0%} of {total} words is all of them", details)
            return Attacked(item.text, details=details)
        rng = random_for(seed, item.id, "copy-paste", self.config.share)
        unmarked = _stretch(filler, total - marked, rng)
        sizes = _random_sizes(marked, excerpts, rng)
        # Both texts keep their order, and passages do not overlap.
        starts = _random_places(total - marked, excerpts, rng)
        places = _random_places(total - marked, excerpts, rng)
        result: list[str] = []
        taken = used = 0
        for size, start, place in zip(sizes, starts, places, strict=True):
            result += [*unmarked[used:place], words.span(start + taken, start + taken + size)]
            taken, used = taken + size, place
        return Attacked(" ".join([*result, *unmarked[used:]]), details=details)


class Crop:
    """Cuts off the beginning (or the end)."""

    def __init__(self, config: CropConfig | None = None) -> None:
        self.config = config or CropConfig()

    @hookimpl
    def attack(self, texts: Sequence[AttackInput]) -> list[Attacked]:
        return [self._one(item) for item in texts]

    def _one(self, item: AttackInput) -> Attacked:
        share, words = self.config.share, words_of(item.text)
        total = len(words)
        count = min(share_of(share, total), max(0, total - 1))
        details = {"words": total, "cropped": count}
        if not count:
            why = f"{share:.0%} of {total} words is none"
            return unchanged(why, details) if share else Attacked(item.text, details=details)
        kept = (count, total) if self.config.side == "start" else (0, total - count)
        return Attacked(words.span(*kept), details=details)


def _stretch(filler: list[list[str]], count: int, rng: random.Random) -> list[str]:
    """`count` words of consecutive unmarked texts, beginning with a random one."""
    place = rng.randrange(len(filler))
    words: list[str] = []
    while len(words) < count:
        words += filler[place % len(filler)]
        place += 1
    return words[:count]


def _random_sizes(total: int, parts: int, rng: random.Random) -> list[int]:
    """`total` in so many parts of at least one."""
    borders = [0, *sorted(rng.sample(range(1, total), parts - 1)), total]
    return [end - start for start, end in pairwise(borders)]


def _random_places(end: int, count: int, rng: random.Random) -> list[int]:
    """`count` places in 0 .. end, ascending."""
    return sorted(rng.randint(0, end) for _ in range(count))
