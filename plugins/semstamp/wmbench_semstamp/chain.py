"""The chain of bins along a text, and its test."""

from __future__ import annotations

import numpy as np

from wmbench.types import IntArray
from wmbench_semstamp.keys import Flags, Floats


def hits_along(bins: IntArray, groups: IntArray, worded: Flags, is_valid: Flags) -> tuple[Flags, Flags]:
    """For units [N] listed text by text (`groups` are numbers of texts, not decreasing): which of them follow another
    unit of their text, and which of those have a bin that is valid after its. Units without words are skipped."""
    counted, hits = np.zeros(len(bins), dtype=bool), np.zeros(len(bins), dtype=bool)
    at = np.flatnonzero(worded)
    follows = np.diff(groups[at]) == 0
    previous, present = at[:-1][follows], at[1:][follows]
    counted[present] = True
    hits[present] = is_valid[bins[previous], bins[present]]
    return counted, hits


def z_of_hits(hits: Floats, n: Floats, rate: float) -> Floats:
    """(hits - rate n) / sqrt(n rate (1 - rate)), 0 where there is nothing."""
    z: Floats = (hits - rate * n) / np.sqrt(np.maximum(n, 1) * rate * (1 - rate))
    return z
