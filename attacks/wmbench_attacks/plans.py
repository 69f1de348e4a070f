"""Which sentence becomes shorter and which longer. A plan depends on (seed, item id) and the number of sentences."""

from __future__ import annotations

from typing import Literal

from wmbench_attacks.pieces import seeded

Mode = Literal["compress", "expand"]
Band = tuple[float, float]
"""Fewest and most words of a result, as shares of the words before."""

BANDS: tuple[Band, ...] = ((0.5, 0.6), (0.6, 0.7), (0.7, 0.8))


def alternating(sentences: int) -> list[Mode]:
    """Short, long, short, long ..."""
    return ["expand" if i % 2 else "compress" for i in range(sentences)]


def halves(sentences: int) -> list[Mode]:
    """The first half short, the second long; a single sentence becomes short."""
    short = max(1, sentences // 2)
    return ["compress" if i < short else "expand" for i in range(sentences)]


def random_runs(sentences: int, seed: int, item_id: str, switch: float = 0.35) -> list[Mode]:
    """Runs of random length: at each border the mode changes with probability `switch`. Both modes occur."""
    rng = seeded(f"{seed}:{item_id}")
    mode: Mode = rng.choice(("compress", "expand"))
    plan: list[Mode] = []
    for i in range(sentences):
        if i and rng.random() < switch:
            mode = _other(mode)
        plan.append(mode)
    if sentences > 1 and len(set(plan)) == 1:
        plan[rng.randrange(1, sentences)] = _other(mode)
    return plan


def _other(mode: Mode) -> Mode:
    return "expand" if mode == "compress" else "compress"


def region_sizes(sentences: int, regions: int = len(BANDS)) -> list[int]:
    """Sentences of up to three regions; sizes differ by at most one, larger ones first."""
    regions = min(regions, sentences)
    return [sentences // regions + (i < sentences % regions) for i in range(regions)]


def region_bands(regions: int, seed: int, item_id: str) -> list[Band]:
    """A band for each region, in random order."""
    bands = list(BANDS)
    seeded(f"{seed}:{item_id}").shuffle(bands)
    return bands[:regions]
