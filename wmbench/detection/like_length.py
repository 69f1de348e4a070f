"""AUC against texts of like length: what is left of a difference when length alone cannot make it.

The statistic of a long text scatters less, so the largest of many views is smaller on average: unmarked texts that are
all long stand below unmarked texts of mixed lengths, at no fault of the key. A control compares like with like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from wmbench.detection.metrics import auc

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

PERCENT: Final = 5
"""Lengths are alike if they differ by at most so many percent of the positive's length."""
FEWEST: Final = 20
"""A positive with fewer negatives of like length is left out, and counted."""


@dataclass(frozen=True)
class LikeLength:
    """Which negatives every positive is compared with. It depends on lengths alone: one pairing serves all keys."""

    pairs: Sequence[tuple[Rows, Rows]]
    """Rows of the positives of one length, and of the negatives that they are compared with."""
    unmatched: int
    """Positives that are left out."""

    @classmethod
    def of(cls, pos_tokens: npt.ArrayLike, neg_tokens: npt.ArrayLike) -> LikeLength:
        positives, negatives = (np.asarray(tokens, dtype=np.int64) for tokens in (pos_tokens, neg_tokens))
        pairs, unmatched = [], 0
        for length in np.unique(positives):
            rows = np.flatnonzero(positives == length)
            alike = np.flatnonzero(100 * np.abs(negatives - length) <= PERCENT * length)
            if len(alike) < FEWEST:
                unmatched += len(rows)
            else:
                pairs.append((rows, alike))
        return cls(tuple(pairs), unmatched)

    @property
    def matched(self) -> int:
        """Positives that are compared."""
        return sum(len(rows) for rows, _ in self.pairs)

    @property
    def negatives(self) -> tuple[int, int]:
        """Fewest and most that a positive is compared with."""
        counts = [len(alike) for _, alike in self.pairs] or [0]
        return min(counts), max(counts)

    def auc(self, pos: Floats, neg: Floats) -> float:
        """P(positive > negative of like length) + P(tie) / 2, averaged over the matched positives."""
        return sum(len(rows) * auc(pos[rows], neg[alike]) for rows, alike in self.pairs) / self.matched
