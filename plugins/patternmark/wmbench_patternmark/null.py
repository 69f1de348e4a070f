"""The law of the pattern count in a text of independent, equally likely colours.

The count grows by one when the last m colours form a pattern, so (count, last m - 1 colours) is a Markov chain. Its
table has [l^(m-1), windows + 1] entries and is stepped once per token by two small matrix products.
"""

from __future__ import annotations

from functools import lru_cache, reduce

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Patterns = tuple[tuple[int, ...], ...]


def pattern_codes(patterns: Patterns, colours: int) -> list[int]:
    """Patterns as numbers in base `colours`."""
    return [reduce(lambda code, colour: code * colours + colour, pattern) for pattern in patterns]


@lru_cache(maxsize=512)
def null_tail(tokens: int, patterns: Patterns, colours: int) -> Floats:
    """P(count >= c) for c = 0 .. windows, in a text of so many tokens.

    As in the published detector there are tokens - m windows: the last one is never looked at.
    """
    windows = max(0, tokens - len(patterns[0]))
    tails = colours ** (len(patterns[0]) - 1)
    hit, miss = np.zeros((tails, tails)), np.zeros((tails, tails))
    codes = set(pattern_codes(patterns, colours))
    for window in range(tails * colours):  # the tail before, and one more colour
        (hit if window in codes else miss)[window % tails, window // colours] += 1 / colours
    law = np.zeros((tails, windows + 1))
    law[:, 0] = 1 / tails
    for done in range(windows):
        grown = hit @ law[:, : done + 1]
        law[:, : done + 1] = miss @ law[:, : done + 1]
        law[:, 1 : done + 2] += grown
    tail: Floats = law.sum(0)[::-1].cumsum()[::-1]
    tail.flags.writeable = False
    return tail
