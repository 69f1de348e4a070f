"""Word level: random deletion and swaps of neighbours. Lines and paragraphs stay."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pydantic import Field

from wmbench import hookimpl
from wmbench.types import AttackContext, Attacked, AttackInput
from wmbench_attacks.config import AttackConfig
from wmbench_attacks.pieces import random_for, share_of, unchanged, words_of


class DeleteConfig(AttackConfig):
    """Settings of `delete`."""

    ratio: float = Field(0.3, ge=0, le=1, description="Share of the words that is removed; one word always stays.")


class SwapConfig(AttackConfig):
    """Settings of `swap`."""

    ratio: float = Field(0.3, ge=0, le=1, description="Share of the words that change places with a neighbour.")


class Delete:
    """Removes words at random."""

    def __init__(self, config: DeleteConfig | None = None) -> None:
        self.config = config or DeleteConfig()

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        return [self._one(item, context.seed) for item in texts]

    def _one(self, item: AttackInput, seed: int) -> Attacked:
        ratio, words = self.config.ratio, words_of(item.text)
        count = min(share_of(ratio, len(words)), max(0, len(words) - 1))
        details = {"words": len(words), "deleted": count}
        if not count and ratio:
            return unchanged(f"{ratio:.0%} of {len(words)} words is none", details)
        gone = random_for(seed, item.id, "deletion", ratio).sample(range(len(words)), count)
        return Attacked(words.without(set(gone)).text if count else item.text, details=details)


class Swap:
    """Lets neighbouring words change places."""

    def __init__(self, config: SwapConfig | None = None) -> None:
        self.config = config or SwapConfig()

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        return [self._one(item, context.seed) for item in texts]

    def _one(self, item: AttackInput, seed: int) -> Attacked:
        ratio, words = self.config.ratio, words_of(item.text)
        pairs = min(-(-share_of(ratio, len(words)) // 2), len(words) // 2)  # an odd number touches one word more
        details = {"words": len(words), "swapped": 2 * pairs}
        if not pairs and ratio:
            return unchanged(f"{ratio:.0%} of {len(words)} words holds no pair", details)
        parts = list(words.parts)
        for first in disjoint_pairs(len(words), pairs, random_for(seed, item.id, "swap", ratio)):
            parts[first], parts[first + 1] = parts[first + 1], parts[first]
        if pairs and parts == list(words.parts):
            return unchanged("the words that change places are equal", details)
        return Attacked(words.with_parts(parts).text, details=details)


def disjoint_pairs(words: int, pairs: int, rng: random.Random) -> list[int]:
    """First places of disjoint neighbouring pairs, every choice equally likely.

    Think of each pair as one piece: `pairs` of the `words - pairs` pieces are drawn, then each is opened into two.
    """
    drawn = sorted(rng.sample(range(words - pairs), pairs))
    return [piece + number for number, piece in enumerate(drawn)]
