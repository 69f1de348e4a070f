"""Bootstrap intervals of a whole ROC at once: AUC and interpolated TPR of the same resamples.

A resample is a count of positives and one of negatives at every score that occurs; their cumulative sums are its ROC,
so no resample is ever sorted. For AUC the numbers are those of `bootstrap(auc, ...)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wmbench.detection.intervals import Interval, percentile_interval
from wmbench.detection.metrics import auc, tpr_at_fpr


@dataclass(frozen=True, slots=True)
class RocIntervals:
    auc: Interval
    tpr: dict[float, Interval]
    """Interpolated TPR by false-positive rate."""


def bootstrap_roc(
    pos: npt.ArrayLike, neg: npt.ArrayLike, targets: Sequence[float], *, seed: int, resamples: int = 2000
) -> RocIntervals:
    """Positives and negatives are resampled independently, each text by itself."""
    positives, negatives = np.asarray(pos, dtype=np.float64), np.asarray(neg, dtype=np.float64)
    estimates = {target: tpr_at_fpr(positives, negatives, target, "interpolated") for target in targets}  # checks too
    values, places = np.unique(np.concatenate([positives, negatives]), return_inverse=True)
    descending = len(values) - 1 - places  # 0 for the largest score
    of_pos, of_neg = descending[: len(positives)], descending[len(positives) :]
    generator = np.random.Generator(np.random.Philox(seed))
    areas, rates = np.empty(resamples), np.empty((resamples, len(targets)))
    for i in range(resamples):
        p = _counts(of_pos, generator, len(values))
        n = _counts(of_neg, generator, len(values))
        p_above, n_above = np.cumsum(p), np.cumsum(n)  # texts that score no less
        areas[i] = int((p * (2 * (len(of_neg) - n_above) + n)).sum()) / (2 * len(of_pos) * len(of_neg))
        fpr = np.concatenate([[0.0], n_above / len(of_neg)])
        tpr = np.concatenate([[0.0], p_above / len(of_pos)])
        upper = np.append(np.diff(fpr) > 0, True)  # the last point of each attained FPR has its highest TPR
        rates[i] = np.interp(targets, fpr[upper], tpr[upper])
    units = (len(positives), len(negatives))
    return RocIntervals(
        percentile_interval(auc(positives, negatives), areas, units),
        {t: percentile_interval(estimates[t], rates[:, column], units) for column, t in enumerate(targets)},
    )


def _counts(places: npt.NDArray[np.int64], generator: np.random.Generator, values: int) -> npt.NDArray[np.int64]:
    """How often each value is drawn, in as many draws as there are texts."""
    return np.bincount(places[generator.integers(len(places), size=len(places))], minlength=values)
