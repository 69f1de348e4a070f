"""From verdicts to rates, each with its n and a 95% interval. JSON values only: this is what metrics.json holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wmbench.detection import Interval, auc, bootstrap, clopper_pearson, operating_point, tpr_at_fpr

Floats = npt.NDArray[np.float64]
FPR_TARGETS: Final = (0.005, 0.01, 0.05)
_SEED: Final = 0
_RESAMPLES: Final = 1000


@dataclass(frozen=True)
class Judged:
    """The verdicts on one text set."""

    p: Floats
    score: Floats

    @classmethod
    def of(cls, verdicts: Sequence[dict[str, Any]]) -> Judged:
        return cls(np.array([v["p"] for v in verdicts]), np.array([v["score"] for v in verdicts]))

    def __len__(self) -> int:
        return len(self.p)


def target_name(target: float) -> str:
    return f"{target:g}"


def interval(found: Interval) -> dict[str, Any]:
    return {
        "estimate": found.estimate,
        "low": found.low,
        "high": found.high,
        "n": list(found.n),
        "method": found.method,
    }


def rate(hits: npt.NDArray[np.bool_]) -> dict[str, Any]:
    return interval(clopper_pearson(int(hits.sum()), len(hits)))


def detection(positives: Judged, negatives: Judged, unresolved: Collection[str] = ()) -> dict[str, Any]:
    """AUC, and TPR at each target under both protocols.

    `threshold`: the paper's rule, highest TPR with FPR <= target on the held-out negatives themselves.
    `split`: p <= target, a threshold that the calibration has fixed; its FPR is measured on the held-out negatives.
    At a target that the calibration cannot resolve, a rate of zero would say nothing about the scheme: it is None.
    """
    at: dict[str, Any] = {}
    for target in FPR_TARGETS:
        point = operating_point(positives.score, negatives.score, target)
        is_blind = target_name(target) in unresolved
        by_threshold = {**rate(positives.score > point.threshold), "threshold": _finite(point.threshold)}
        at[target_name(target)] = {
            "threshold": None if is_blind and not point.tpr else {**by_threshold, "fpr": point.fpr},
            "interpolated": tpr_at_fpr(positives.score, negatives.score, target, "interpolated"),
            "split": None if is_blind else rate(positives.p <= target),
        }
    return {"n": len(positives), "auc": auc_interval(positives, negatives), "tpr": at}


def false_positives(negatives: Judged, unresolved: Collection[str] = ()) -> dict[str, Any]:
    """Share of null texts with p <= target."""
    rates = {target_name(t): rate(negatives.p <= t) for t in FPR_TARGETS}
    return {"n": len(negatives), "fpr": {t: None if t in unresolved else found for t, found in rates.items()}}


def auc_interval(positives: Judged, negatives: Judged) -> dict[str, Any]:
    return interval(bootstrap(auc, positives.score, negatives.score, seed=_SEED, resamples=_RESAMPLES))


def over_keys(values: Sequence[float]) -> dict[str, Any]:
    """The mean over keys; the key is the resampling unit, since one key moves all texts together."""
    found = interval(bootstrap(lambda drawn: float(np.mean(drawn)), list(values), seed=_SEED, resamples=_RESAMPLES))
    return {**found, "per_key": list(values), "unit": "key"}


def _finite(threshold: float) -> float | None:
    return threshold if np.isfinite(threshold) else None
