"""From verdicts to rates, each with its n and a 95% interval. JSON values only: this is what metrics.json holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wmbench.detection import Interval, LikeLength, auc, bootstrap, bootstrap_roc, clopper_pearson, operating_point
from wmbench.detection.like_length import FEWEST, PERCENT
from wmbench.detection.metrics import tolerated

Floats = npt.NDArray[np.float64]
FPR_TARGETS: Final = (0.005, 0.01, 0.05)
NULL_AUC_BAND: Final = 0.05
"""How far from one half the AUC of clean texts may lie, averaged over keys, before the control has failed."""
KEYS_TO_JUDGE: Final = 25
"""Fewer wrong keys do not tell whether a control is null."""
FEWEST_TEXTS: Final = 10
FEW_TEXTS: Final = (
    f"AUC intervals from fewer than {FEWEST_TEXTS} texts are too narrow, since so few texts show little of how much "
    "texts differ."
)
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


def bootstrapped(metric: Callable[..., float], *samples: npt.ArrayLike, **options: Any) -> dict[str, Any]:
    """A percentile interval, always with the same draws: equal numbers give equal files."""
    return interval(bootstrap(metric, *samples, seed=_SEED, resamples=_RESAMPLES, **options))


def mean(values: npt.NDArray[np.float64]) -> float:
    return float(np.mean(values))


def rate(hits: npt.NDArray[np.bool_]) -> dict[str, Any]:
    return interval(clopper_pearson(int(hits.sum()), len(hits)))


def crowded_top(positives: Sequence[Judged], negatives: Judged, target: float) -> int:
    """How many negatives share the highest score of all texts with a positive, where these are more than may be
    detected: then no threshold can be placed, and a rate of zero would say nothing about the scheme. Else 0.

    An empirical p cannot fall below what the number of null texts allows, so scores end there.
    """
    top = max((float(found.score.max()) for found in positives if len(found)), default=-np.inf)
    crowd = int((negatives.score == top).sum())
    return crowd if float(negatives.score.max()) == top and crowd > tolerated(len(negatives), target) else 0


def detection(
    positives: Judged, negatives: Judged, unresolved: Collection[str] = (), tied: Collection[str] = ()
) -> dict[str, Any]:
    """AUC, and TPR at each target under both protocols.

    `threshold`: the paper's rule, highest TPR with FPR <= target on the held-out negatives themselves; None at a target
    where they leave no room for a threshold (`tied`).
    `split`: p <= target, a threshold that the calibration has fixed; its FPR is measured on the held-out negatives.
    None at a target that the calibration cannot resolve.
    """
    at: dict[str, Any] = {}
    curve = bootstrap_roc(positives.score, negatives.score, FPR_TARGETS, seed=_SEED, resamples=_RESAMPLES)
    for target in FPR_TARGETS:
        point = operating_point(positives.score, negatives.score, target)
        name = target_name(target)
        by_threshold = {**rate(positives.score > point.threshold), "threshold": _finite(point.threshold)}
        at[name] = {
            "threshold": None if name in tied else {**by_threshold, "fpr": point.fpr},
            "interpolated": curve.tpr[target].estimate,
            "interpolated_interval": interval(curve.tpr[target]),
            "split": None if name in unresolved else rate(positives.p <= target),
        }
    return {"n": len(positives), "auc": interval(curve.auc), "tpr": at}


def false_positives(negatives: Judged, unresolved: Collection[str] = ()) -> dict[str, Any]:
    """Share of null texts with p <= target."""
    rates = {target_name(t): rate(negatives.p <= t) for t in FPR_TARGETS}
    return {"n": len(negatives), "fpr": {t: None if t in unresolved else found for t, found in rates.items()}}


def auc_interval(positives: Judged, negatives: Judged) -> dict[str, Any]:
    return interval(bootstrap_roc(positives.score, negatives.score, (), seed=_SEED, resamples=_RESAMPLES).auc)


def over_keys(values: Sequence[float]) -> dict[str, Any]:
    """The mean over keys; the key is the resampling unit, since one key moves all texts together. So one key alone has
    no interval: its ends are None."""
    found = bootstrapped(mean, list(values))
    if len(values) == 1:
        found.update(low=None, high=None, method="one key: no interval")
    return {**found, "per_key": list(values), "unit": "key"}


def auc_over_keys(positives: Floats, negatives: Floats) -> dict[str, Any]:
    """Of scores [keys, texts]."""
    return over_keys([auc(*scores) for scores in zip(positives, negatives, strict=True)])


def like_length_auc_over_keys(
    positives: Floats, negatives: Floats, pos_tokens: npt.ArrayLike, neg_tokens: npt.ArrayLike
) -> dict[str, Any]:
    """The same with every text compared with null texts of like length only. `estimate` is None when there are too
    few of them, and `why` says so."""
    like = LikeLength.of(pos_tokens, neg_tokens)
    pairing = {"percent": PERCENT, "texts": like.matched, "unmatched": like.unmatched, "nulls": list(like.negatives)}
    if not like.matched:
        why = f"no text has {FEWEST} held-out null texts within {PERCENT}% of its length"
        return {"estimate": None, "low": None, "high": None, "why": why, **pairing}
    found = over_keys([like.auc(*scores) for scores in zip(positives, negatives, strict=True)])
    return {**found, "why": "", **pairing}


def false_positives_over_keys(p: Floats, unresolved: Collection[str] = ()) -> dict[str, Any]:
    """Of p-values [keys, texts]: the FPR at every target, averaged over keys."""
    rates = {target_name(t): over_keys(np.mean(p <= t, axis=1).tolist()) for t in FPR_TARGETS}
    return {t: None if t in unresolved else found for t, found in rates.items()}


def tokens_to_detect(p_values: Sequence[Mapping[str, float]], alpha: float) -> dict[str, Any] | None:
    """From p by number of tokens, per sample: the median of the fewest tokens with p <= alpha, and the rate at each.

    A sample that is never detected counts as longer than all lengths. The median is None when half of them are.
    """
    lengths = sorted({int(n) for found in p_values for n in found})
    if not lengths:
        return None
    beyond = lengths[-1] + 1.0
    needed = np.array(
        [min((float(n) for n in lengths if found.get(str(n), 1.0) <= alpha), default=beyond) for found in p_values]
    )
    median = bootstrapped(_lower_median, needed)
    if median["estimate"] == beyond:
        summary: dict[str, Any] = {
            "estimate": None,
            "why": f"half of the texts are not detected after {lengths[-1]} tokens",
        }
    else:
        summary = {**median, "high": min(median["high"], float(lengths[-1])), "censored": median["high"] == beyond}
    at = {}
    for n in lengths:
        known = np.array([found[str(n)] for found in p_values if str(n) in found])
        at[str(n)] = rate(known <= alpha)
    return {**summary, "alpha": alpha, "never": rate(needed == beyond), "detected_after": at}


def _lower_median(values: Floats) -> float:
    """A value that occurs, so that a length beyond all lengths is not averaged with one that was measured."""
    return float(np.sort(values)[(len(values) - 1) // 2])


def _finite(threshold: float) -> float | None:
    return threshold if np.isfinite(threshold) else None
