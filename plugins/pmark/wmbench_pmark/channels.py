"""PMark's rules: which completions survive the channels, and how well a unit matches its bits."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.stats.mstats import hdmedian

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.uint8]
Median = Literal["prior", "lower", "harrell_davis"]


def median_of(values: Floats, kind: Median) -> float:
    """The estimate of the median; the lower one of two middle values under `lower`. A single value is its own median
    under every rule, so that the last completion left is never judged."""
    if len(values) == 1:
        return float(values[0])
    if kind == "prior":
        return 0.0
    if kind == "lower":
        return float(np.sort(values)[(len(values) - 1) // 2])
    return float(hdmedian(values))


def survivors(cosines: Floats, bits: Bits, kind: Median) -> tuple[npt.NDArray[np.int64], list[float]]:
    """Indices of the completions [n, b] that pass channel after channel, and the median of each channel.

    Bit 1 keeps those at or above the median, bit 0 those below or, as published, the median itself where nothing lies
    below it. A channel that nothing would pass is left out.
    """
    alive = np.arange(len(cosines))
    medians = []
    for channel, bit in enumerate(bits.tolist()):
        values = cosines[alive, channel]
        medians.append(median_of(values, kind))
        passed = values >= medians[-1] if bit else values < medians[-1]
        if not bit and not passed.any():
            passed = values <= medians[-1]
        alive = alive[passed] if passed.any() else alive
    return alive, medians


def soft_matches(cosines: Floats, bits: Bits, tolerance: float, sharpness: float) -> Floats:
    """How well cosines [n, b] fit bits [n, b]: 1 on the right side of 0, falling off on the wrong one."""
    wrong = np.where(bits == 1, -cosines, cosines)  # positive: on the wrong side
    return np.where(wrong <= tolerance, 1.0, np.exp(-sharpness * np.abs(cosines)))


def z_of_mean(mean: Floats, n: Floats) -> Floats:
    """(mean - 1/2) / sqrt(1 / 4n), 0 where there is nothing; the published test of n matches."""
    return np.where(n > 0, (mean - 0.5) * np.sqrt(4 * n), 0.0)
