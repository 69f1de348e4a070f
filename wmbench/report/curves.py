"""Curves that metrics.json does not hold, from the verdicts of a run: over FPR, and over length."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from wmbench.detection import clopper_pearson, roc
from wmbench.report.rates import LengthBin, Rate

HIGHEST_FPR: Final = 0.1
_BINS: Final = 5
_TEXTS_PER_BIN: Final = 10


def low_roc(positives: npt.ArrayLike, negatives: npt.ArrayLike) -> list[tuple[float, float]]:
    """The highest TPR at every attained FPR up to `HIGHEST_FPR`, and there once more so that lines end together."""
    curve = roc(positives, negatives)
    upper = np.append(np.diff(curve.fpr) > 0, True) & (curve.fpr <= HIGHEST_FPR)
    points = [(float(f), float(t)) for f, t in zip(curve.fpr[upper], curve.tpr[upper], strict=True)]
    return points if points[-1][0] == HIGHEST_FPR else [*points, (HIGHEST_FPR, points[-1][1])]


def by_length(tokens: npt.NDArray[np.int64], detected: npt.NDArray[np.bool_]) -> list[LengthBin]:
    """Detection rates of shorter and longer texts: up to five bins of equal counts, never fewer than ten texts each."""
    order = np.argsort(tokens, kind="stable")
    bins = []
    for rows in np.array_split(order, max(1, min(_BINS, len(order) // _TEXTS_PER_BIN))):
        if len(rows):
            found = clopper_pearson(int(detected[rows].sum()), len(rows))
            rate = Rate(estimate=found.estimate, low=found.low, high=found.high, n=found.n, method=found.method)
            bins.append(LengthBin(tokens=float(np.median(tokens[rows])), detected=rate))
    return bins
