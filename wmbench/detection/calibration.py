"""Calibration: from raw scores to p-values, by comparison with null texts.

A scheme gives every text one score per view (DenMark: one per unit size). With n0 null texts and V views

    p_v    = (1 + #{null scores of view v >= the text's}) / (n0 + 1)      ties count against the text
    p_scan = min(1, V min_v p_v)                                          Bonferroni over the views
    S_rob  = -ln p_scan                                                   the ranking score

P(p_scan <= alpha) <= alpha for a text that is exchangeable with the nulls, however the views depend on each other.
p_scan cannot be smaller than V / (n0 + 1), so too few nulls can never decide at a small alpha: `require` refuses.

`min_p` is the sharper alternative. It ranks the text's smallest p in the pool of all n0 + 1 texts, where each text's p
is computed against that same pool; treating all texts alike makes it exact, with a floor of 1 / (n0 + 1).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wmbench.detection.archive import read_archive, write_archive
from wmbench.errors import CalibrationError, IntegrityError, WmbenchError

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Scores = npt.NDArray[np.floating[Any]]
Rule = Literal["bonferroni", "min_p"]

_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Scan:
    """What calibration says about n texts."""

    p: Floats
    """[n, views] p-value of each view alone."""
    p_scan: Floats
    """[n] p-value of the whole scan."""
    s_rob: Floats
    """[n] -ln p_scan; larger = more watermarked."""
    best_view: Counts
    """[n] index of the first view that has the smallest p."""

    @classmethod
    def of_counts(cls, at_least: Counts, pool: int) -> Scan:
        """`at_least`: [n, views] texts of the pool, the text itself included, that score no less than the text."""
        # One division of integers: V * (1 / (n0 + 1)) may round to just above the alpha that it equals.
        p_scan = np.minimum(at_least.shape[1] * at_least.min(axis=1), pool) / pool
        return cls(at_least / pool, p_scan, 0.0 - np.log(p_scan), at_least.argmin(axis=1))


@dataclass(frozen=True, eq=False)
class Calibration:
    """The scores of n0 null texts, and where they come from."""

    null_scores: Scores
    """[n0, views], one row per null text. Scores to be judged are rounded to its dtype: both sides of a comparison
    are then rounded alike, and a float32 pool cannot break ties in favour of a float64 text."""
    views: tuple[str, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Provenance: scheme alg_id, configuration hash, key id, name and hash of the null set, versions. JSON values."""

    def __post_init__(self) -> None:
        if not self.views:
            raise CalibrationError("a calibration needs at least one view")
        scores = np.array(self.null_scores, order="F")  # a copy: columns are searched, and nobody else may change it
        if scores.dtype.kind != "f":
            scores = scores.astype(np.float64)
        self._check(scores, "null text")
        scores.flags.writeable = False
        object.__setattr__(self, "null_scores", scores)
        object.__setattr__(self, "views", tuple(self.views))
        object.__setattr__(self, "metadata", json.loads(json.dumps(dict(self.metadata))))

    @property
    def n0(self) -> int:
        """How many null texts there are."""
        return len(self.null_scores)

    # --- p-values ------------------------------------------------------------------------------------------------

    def p_values(self, scores: Scores) -> Floats:
        """[n, views] add-one p-values in (0, 1]."""
        return self.scan(scores).p

    def scan(self, scores: Scores) -> Scan:
        return Scan.of_counts(1 + self._nulls_at_least(self._like_nulls(scores)), self.n0 + 1)

    def leave_one_out(self) -> Scan:
        """The null texts themselves, each judged by the n0 - 1 others."""
        return Scan.of_counts(self._null_counts, self.n0)

    def min_p(self, scores: Scores) -> Floats:
        """[n] exact p-values of the smallest p over all views.

        With c_iv = #{nulls >= null i} (itself included), null i has the count c_iv, plus 1 if the text scores >= null
        i; its smallest count is C_i = min_v c_iv, or C_i + 1 if the text raised it in every view that attains C_i.
        So a null is at least as extreme as a text of smallest count m if C_i < m, or if C_i = m and was not raised.
        """
        scores = self._like_nulls(scores)
        smallest = (1 + self._nulls_at_least(scores)).min(axis=1)
        order, null_smallest = self._nulls_by_smallest_count
        first = np.searchsorted(null_smallest, smallest, side="left")
        last = np.searchsorted(null_smallest, smallest, side="right")
        extreme: Counts = 1 + first  # the text itself, and the nulls with C_i < m
        for i in range(len(scores)):
            tied = order[first[i] : last[i]]
            unraised = (self._null_counts[tied] == smallest[i]) & (scores[i] < self.null_scores[tied])
            extreme[i] += np.count_nonzero(unraised.any(axis=1))
        return extreme / (self.n0 + 1)

    # --- what it can resolve -------------------------------------------------------------------------------------

    def smallest_alpha(self, rule: Rule = "bonferroni") -> float:
        """No text whatever can have a smaller p-value."""
        return min(1.0, self._tests(rule) / (self.n0 + 1))

    def require(self, alpha: float, rule: Rule = "bonferroni") -> None:
        """Refuse a level at which no text could ever be detected."""
        needed = needed_nulls(alpha, self._tests(rule))
        if self.n0 < needed:
            views = f"{len(self.views)} views under {rule}" if len(self.views) > 1 else "one view"
            raise CalibrationError(
                f"alpha = {alpha:g} can never be reached with {self.n0:,} null texts",
                why=f"the smallest p-value of {views} is {self.smallest_alpha(rule):.3g}",
                hint=f"calibrate with at least {needed:,} null texts, or choose a larger alpha",
            )

    def require_views(self, names: tuple[str, ...]) -> None:
        """Refuse scores of other views."""
        if names != self.views:
            raise CalibrationError(
                "the scores and the calibration have different views",
                why=f"scores: {', '.join(names)}; calibration: {', '.join(self.views)}",
                hint="calibrate again with the present configuration of the scheme",
            )

    def _tests(self, rule: Rule) -> int:
        return len(self.views) if rule == "bonferroni" else 1

    # --- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """One .npz file: the scores, and readable metadata.json beside them."""
        header = {"schema": _SCHEMA, "kind": "calibration", "views": self.views, "metadata": self.metadata}
        write_archive(path, {"null_scores": self.null_scores}, header)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Calibration:
        arrays, header = read_archive(path)
        if header.get("kind") != "calibration" or header.get("schema") != _SCHEMA or "null_scores" not in arrays:
            raise IntegrityError(
                "this file is not a calibration that this version can read",
                where=os.fspath(path),
                why=f"kind {header.get('kind')!r}, schema {header.get('schema')!r}; expected schema {_SCHEMA}",
                hint="calibrate again",
            )
        try:
            views = tuple(str(view) for view in header["views"])
            return cls(arrays["null_scores"], views, dict(header["metadata"]))
        except (KeyError, TypeError, ValueError) as error:
            raise IntegrityError(
                "the calibration does not hold what it should",
                where=os.fspath(path),
                why=str(error),
                hint="calibrate again",
            ) from error

    # --- counting ------------------------------------------------------------------------------------------------

    def _check(self, scores: Scores, what: str) -> None:
        if scores.ndim != 2 or scores.shape[1] != len(self.views):
            raise CalibrationError(f"expected a score matrix with {len(self.views)} views, not shape {scores.shape}")
        bad = np.isnan(scores)
        if bad.any():
            row, view = np.argwhere(bad)[0]
            raise CalibrationError(
                f"{bad.any(axis=1).sum():,} of {len(scores):,} texts have a score that is not a number",
                where=f"{what} {row}, view {self.views[view]!r}",
                why="such a score cannot be ranked",
            )

    def _like_nulls(self, scores: Scores) -> Scores:
        scores = np.asarray(scores).astype(self.null_scores.dtype)
        self._check(scores, "text")
        return scores

    def _nulls_at_least(self, scores: Scores) -> Counts:
        """[n, views]: how many nulls score >= each score."""
        below = [np.searchsorted(ordered, s) for ordered, s in zip(self._sorted, scores.T, strict=True)]
        return self.n0 - np.stack(below, axis=1)

    @cached_property
    def _sorted(self) -> Scores:
        """[views, n0], each row ascending."""
        return np.sort(self.null_scores.T, axis=1)

    @cached_property
    def _null_counts(self) -> Counts:
        return self._nulls_at_least(self.null_scores)

    @cached_property
    def _nulls_by_smallest_count(self) -> tuple[Counts, Counts]:
        """Null texts in the order of C_i, and their C_i."""
        smallest = self._null_counts.min(axis=1)
        order = np.argsort(smallest, kind="stable")
        return order, smallest[order]


def is_calibration(path: str | os.PathLike[str]) -> bool:
    """Whether a whole and unchanged one is stored there, of whatever version."""
    try:
        return read_archive(path)[1].get("kind") == "calibration"
    except WmbenchError:
        return False


def needed_nulls(alpha: float, views: int) -> int:
    """The smallest n0 with views / (n0 + 1) <= alpha, in the very arithmetic that decides."""
    if not 0.0 < alpha < 1.0:
        raise CalibrationError(f"alpha must lie between 0 and 1, not at {alpha}")
    n0 = max(0, math.ceil(views / alpha) - 2)  # at most the answer, whichever way the quotient was rounded
    while views / (n0 + 1) > alpha:
        n0 += 1
    return n0
