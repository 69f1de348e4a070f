"""How long does PatternMark's null law take? `python -m benchmarks.patternmark_null [tokens]`: a ratio against the
published recursion, five nested loops, both in this run. The ratio grows with the number of tokens."""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import numpy.typing as npt
from wmbench_patternmark.null import Patterns, null_tail

PATTERNS: Patterns = ((0, 1, 0, 1), (1, 0, 1, 0))
TARGET_RATIO = 10.0


def published_tail(tokens: int, patterns: Patterns, colours: int) -> npt.NDArray[np.float64]:
    """P(count >= c) from the table [token, count, last m - 1 colours], filled entry by entry."""
    m = len(patterns[0])
    tails = colours ** (m - 1)
    table = np.zeros((tokens, tokens - m + 1, tails))
    table[m - 1, 0, :] = 1 / tails
    for i in range(m, tokens):
        for state in range(tails):
            tail = [state // colours**j % colours for j in reversed(range(m - 1))]
            for colour in range(colours):
                before = colour * colours ** (m - 2) + state // colours
                step = int((colour, *tail) in patterns)
                for count in range(i - m + 1):
                    table[i, count + step, state] += table[i - 1, count, before] / colours
    return table[-1].sum(-1)[::-1].cumsum()[::-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokens", nargs="?", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    began = time.perf_counter()
    expected = published_tail(arguments.tokens, PATTERNS, 2)
    reference = time.perf_counter() - began
    times = []
    for _ in range(arguments.repeats):
        null_tail.cache_clear()
        began = time.perf_counter()
        found = null_tail(arguments.tokens, PATTERNS, 2)
        times.append(time.perf_counter() - began)
    print(f"{arguments.tokens} tokens, published recursion: {reference:.2f} s")
    print(
        f"{arguments.tokens} tokens, null_tail: {1000 * min(times):.1f} ms, {reference / min(times):.0f} times faster"
    )
    print(f"  goal: {TARGET_RATIO:.0f} times; largest difference {np.abs(found - expected).max():.1e}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
