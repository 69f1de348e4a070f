"""How well positives stand out from negatives: TPR at a fixed FPR, ROC, AUC. Larger score = more watermarked.

Three rules for TPR at FPR f, which differ when scores are tied (scan scores are coarse, so they often are):

- `threshold`, the paper's: the highest TPR among all thresholds whose measured FPR is <= f;
- `order_statistic`: decide strictly above the ceil((1-f) n)-th smallest negative (the same decision but for rounding);
- `interpolated`: the ROC's upper points joined by straight lines; never smaller, and no threshold attains it.

They all place the threshold on the negatives that they measure. `split_rule` fixes it on calibration negatives and
measures the FPR on others, as it would be in use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wmbench.errors import CalibrationError

Floats = npt.NDArray[np.float64]
TprRule = Literal["threshold", "order_statistic", "interpolated"]


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """A threshold and what it does. A text is detected if its score is strictly above the threshold."""

    threshold: float
    tpr: float
    fpr: float
    """Measured, not the target."""


@dataclass(frozen=True, slots=True)
class Roc:
    """All attainable points, from (0, 0) to (1, 1): a text is detected if its score is >= the point's threshold."""

    fpr: Floats
    tpr: Floats
    thresholds: Floats
    """Descending, starting with +inf."""


def tpr_at_fpr(pos: npt.ArrayLike, neg: npt.ArrayLike, fpr: float, rule: TprRule = "threshold") -> float:
    if rule != "interpolated":
        return operating_point(pos, neg, fpr, rule).tpr
    curve = roc(pos, neg)
    _check_rate(fpr)
    # The last point of each attained FPR has its highest TPR.
    upper = np.append(np.diff(curve.fpr) > 0, True)
    return float(np.interp(fpr, curve.fpr[upper], curve.tpr[upper]))


def operating_point(
    pos: npt.ArrayLike, neg: npt.ArrayLike, fpr: float, rule: Literal["threshold", "order_statistic"] = "threshold"
) -> OperatingPoint:
    positives, negatives = _scores(pos, "positive"), np.sort(_scores(neg, "negative"))
    return _measure(_threshold(negatives, fpr, rule), positives, negatives)


def split_rule(
    pos: npt.ArrayLike, calibration_neg: npt.ArrayLike, heldout_neg: npt.ArrayLike, fpr: float
) -> OperatingPoint:
    """The paper's threshold for the calibration negatives; TPR on positives and FPR on held-out negatives."""
    threshold = _threshold(np.sort(_scores(calibration_neg, "calibration negative")), fpr, "threshold")
    return _measure(threshold, _scores(pos, "positive"), _scores(heldout_neg, "held-out negative"))


def roc(pos: npt.ArrayLike, neg: npt.ArrayLike) -> Roc:
    positives, negatives = np.sort(_scores(pos, "positive")), np.sort(_scores(neg, "negative"))
    thresholds = np.concatenate([[np.inf], np.unique(np.concatenate([positives, negatives]))[::-1]])
    return Roc(_share_at_least(negatives, thresholds), _share_at_least(positives, thresholds), thresholds)


def auc(pos: npt.ArrayLike, neg: npt.ArrayLike) -> float:
    """P(positive > negative) + P(tie) / 2."""
    positives, negatives = _scores(pos, "positive"), np.sort(_scores(neg, "negative"))
    below = np.searchsorted(negatives, positives, side="left")
    not_above = np.searchsorted(negatives, positives, side="right")
    return int((below + not_above).sum()) / (2 * len(positives) * len(negatives))


def tolerated(negatives: int, fpr: float) -> int:
    """How many of so many negatives may be detected. Compares measured rates, as the paper's rule is worded:
    floor(0.29 * 100) would be 28."""
    return int(np.searchsorted(np.arange(negatives + 1) / negatives, fpr, side="right") - 1)


def _threshold(negatives: Floats, fpr: float, rule: Literal["threshold", "order_statistic"]) -> float:
    """`negatives` ascending; texts strictly above the result are detected."""
    _check_rate(fpr)
    n = len(negatives)
    if rule == "order_statistic":
        not_detected = math.ceil((1.0 - fpr) * n)
    elif rule == "threshold":
        not_detected = n - tolerated(n, fpr)
    else:
        raise CalibrationError(f"unknown TPR rule {rule!r}", hint="threshold, order_statistic or interpolated")
    return float(negatives[not_detected - 1]) if not_detected else -math.inf


def _measure(threshold: float, positives: Floats, negatives: Floats) -> OperatingPoint:
    return OperatingPoint(threshold, float(np.mean(positives > threshold)), float(np.mean(negatives > threshold)))


def _share_at_least(ascending: Floats, thresholds: Floats) -> Floats:
    return (len(ascending) - np.searchsorted(ascending, thresholds, side="left")) / len(ascending)


def _check_rate(fpr: float) -> None:
    if not 0.0 <= fpr <= 1.0:
        raise CalibrationError(f"a false-positive rate lies in [0, 1], not at {fpr}")


def _scores(values: Any, what: str) -> Floats:
    scores = np.asarray(values, dtype=np.float64)
    if scores.ndim != 1 or not len(scores):
        raise CalibrationError(f"expected at least one {what} score in a list, not shape {scores.shape}")
    if np.isnan(scores).any():
        raise CalibrationError(f"{np.isnan(scores).sum()} {what} scores are not a number and cannot be ranked")
    return scores
