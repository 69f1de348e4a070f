"""Noise that a reader does not see: letters of other alphabets, odd and invisible spaces.

`--normalise` is the matching defence (`wmbench.normalise`): it undoes both before texts are tokenised for detection.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from wmbench import hookimpl
from wmbench.normalise import LOOKALIKES
from wmbench.types import AttackContext, Attacked, AttackInput
from wmbench_attacks.config import AttackConfig
from wmbench_attacks.pieces import random_for, share_of, unchanged

_INSIDE_A_WORD = re.compile(r"(?<=[A-Za-z])(?=[A-Za-z])")
_SPACE = re.compile(r"(?<=\S) (?=\S)")
_SPACES = ("\u00a0", "\u2009", "\u2002", "  ")
"""No-break, thin and en space; two spaces."""
_INVISIBLE = ("\u200b", "\u2060", "\ufeff")
"""Zero-width space, word joiner, zero-width no-break space."""


class HomoglyphConfig(AttackConfig):
    """Settings of `homoglyph`."""

    ratio: float = Field(0.1, ge=0, le=1, description="Share of the letters with a look-alike that are exchanged.")


class WhitespaceConfig(AttackConfig):
    """Settings of `whitespace`."""

    ratio: float = Field(0.1, ge=0, le=1, description="Share of the places that are changed.")
    kind: Literal["both", "spaces", "invisible"] = Field(
        "both",
        description="spaces: a space becomes another kind of space, or two; invisible: a character without width "
        "is put between two letters.",
    )


class Homoglyph:
    """Exchanges Latin letters for look-alikes of other alphabets."""

    def __init__(self, config: HomoglyphConfig | None = None) -> None:
        self.config = config or HomoglyphConfig()

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        return [self._one(item, context.seed) for item in texts]

    def _one(self, item: AttackInput, seed: int) -> Attacked:
        ratio, letters = self.config.ratio, list(item.text)
        places = [i for i, letter in enumerate(letters) if letter in LOOKALIKES]
        count = share_of(ratio, len(places))
        details = {"letters": len(places), "exchanged": count}
        if not count and ratio:
            return unchanged(f"{ratio:.0%} of {len(places)} letters with a look-alike is none", details)
        rng = random_for(seed, item.id, "homoglyph", ratio)
        for place in sorted(rng.sample(places, count)):
            letters[place] = rng.choice(LOOKALIKES[letters[place]])
        return Attacked("".join(letters), details=details)


class Whitespace:
    """Changes spaces, and puts invisible ones into words."""

    def __init__(self, config: WhitespaceConfig | None = None) -> None:
        self.config = config or WhitespaceConfig()

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        return [self._one(item, context.seed) for item in texts]

    def _one(self, item: AttackInput, seed: int) -> Attacked:
        ratio, kind, text = self.config.ratio, self.config.kind, item.text
        spans = [match.span() for match in _SPACE.finditer(text)] if kind != "invisible" else []
        spans += [match.span() for match in _INSIDE_A_WORD.finditer(text)] if kind != "spaces" else []
        count = share_of(ratio, len(spans))
        details = {"places": len(spans), "changed": count}
        if not count and ratio:
            return unchanged(f"{ratio:.0%} of {len(spans)} places is none", details)
        rng = random_for(seed, item.id, "whitespace", ratio)
        result, done = [], 0
        for start, end in sorted(rng.sample(spans, count)):
            result += [text[done:start], rng.choice(_SPACES if end > start else _INVISIBLE)]
            done = end
        return Attacked("".join([*result, text[done:]]), details=details)
