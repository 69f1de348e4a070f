"""Bootstrap of two detectors on the same texts, all figures at once.

A resample is how often every text was drawn. The draws are made once and serve both sides and every figure, and null
scores are sorted once: an AUC or a threshold of a resample is then read off cumulative counts. Number for number it is
what `auc` and `tpr_at_fpr` say about the texts that were drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wmbench.detection.metrics import tolerated

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int32]


def drawn_counts(texts: int, resamples: int, generator: np.random.Generator) -> Counts:
    """[resamples, texts]: how often each text is among as many draws as there are texts."""
    draws = generator.integers(texts, size=(resamples, texts))
    places = draws + texts * np.arange(resamples)[:, None]
    return np.bincount(places.ravel(), minlength=resamples * texts).reshape(resamples, texts).astype(np.int32)


def shares(hits: npt.NDArray[np.bool_], drawn: Counts) -> Floats:
    """[resamples]: the share of hits among the drawn texts."""
    return np.asarray((drawn @ hits.astype(np.int64)) / len(hits), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class ResampledNegatives:
    """The null scores of one detector, and every resample of them."""

    ascending: Floats
    below: Counts
    """[resamples, n + 1]: drawn texts among the first k of the ascending ones."""

    @classmethod
    def of(cls, scores: npt.ArrayLike, drawn: Counts) -> ResampledNegatives:
        negatives = np.asarray(scores, dtype=np.float64)
        order = np.argsort(negatives, kind="stable")
        below = np.zeros((len(drawn), len(negatives) + 1), dtype=np.int32)
        np.cumsum(drawn[:, order], axis=1, out=below[:, 1:])
        return cls(negatives[order], below)

    def auc(self, scores: Floats, drawn: Counts) -> Floats:
        """[resamples]: of positives that are drawn as often as `drawn` says."""
        twice = sum(self.below[:, np.searchsorted(self.ascending, scores, side)] for side in ("left", "right"))
        return np.einsum("rp,rp->r", twice, drawn, dtype=np.int64) / (2 * len(scores) * len(self.ascending))

    def tpr(self, scores: Floats, drawn: Counts, fpr: float) -> Floats:
        """[resamples]: the highest TPR with FPR <= fpr on the drawn null texts."""
        detected = scores > self.thresholds(fpr)[:, None]
        return np.einsum("rp,rp->r", detected, drawn, dtype=np.int64) / len(scores)

    def thresholds(self, fpr: float) -> Floats:
        """[resamples]: the smallest score above which no more null texts lie than the rate allows."""
        not_detected = len(self.ascending) - tolerated(len(self.ascending), fpr)
        if not not_detected:
            return np.full(len(self.below), -np.inf)
        # Rows ascend: so many entries are smaller as the place of the first that is not.
        return self.ascending[np.count_nonzero(self.below < not_detected, axis=1) - 1]
