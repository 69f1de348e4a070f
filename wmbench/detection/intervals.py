"""Intervals: exact binomial ones for rates, percentile bootstrap for anything else.

What is resampled must be what is independent. Scores that share a key or a document move together, so resampling
single scores would give intervals that are too narrow: name the `units` and whole units are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt

from wmbench.errors import CalibrationError

Metric = Callable[..., float]
"""Called with one array per sample, for example `auc(pos, neg)`."""
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and how sure it is."""

    estimate: float
    low: float
    high: float
    level: float
    n: tuple[int, ...]
    """Independent units behind it: trials, or resampled units of each sample."""
    method: str


def clopper_pearson(successes: int, trials: int, level: float = 0.95) -> Interval:
    """Exact interval of a binomial rate: it covers with at least `level`, whatever the rate."""
    from scipy.special import betaincinv

    if not 0 <= successes <= trials or trials == 0:
        raise CalibrationError(f"{successes} of {trials} is not a rate")
    tail = _tail(level)
    failures = trials - successes
    low = betaincinv(successes, failures + 1, tail) if successes else 0.0
    high = betaincinv(successes + 1, failures, 1.0 - tail) if failures else 1.0
    return Interval(successes / trials, float(low), float(high), level, (trials,), "Clopper-Pearson")


def bootstrap(
    metric: Metric,
    *samples: npt.ArrayLike,
    seed: int,
    units: Sequence[npt.ArrayLike | None] | None = None,
    joint: bool = False,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Percentile interval of `metric(*samples)`; of each sample the first axis is resampled.

    `units` has one list of labels per sample (None: every row is a unit of its own). The samples are resampled
    independently; `joint=True` draws units once for all samples, for labels that mean the same thing in all of them:
    with the key as unit, a drawn key brings its positives and its negatives.
    """
    parts = [_Sample.of(*pair) for pair in zip(samples, units or [None] * len(samples), strict=True)]
    if joint and any(not np.array_equal(part.names, parts[0].names) for part in parts):
        raise CalibrationError("samples can only be resampled jointly if each of them has every unit")
    generator = np.random.Generator(np.random.Philox(seed))
    estimates = np.empty(resamples)
    for i in range(resamples):
        draws = [generator.integers(len(p.names), size=len(p.names)) for p in (parts[:1] if joint else parts)]
        estimates[i] = metric(*(p.drawn(draw) for p, draw in zip(parts, cycle(draws), strict=False)))
    estimate = float(metric(*(part.values for part in parts)))
    return percentile_interval(estimate, estimates, tuple(len(part.names) for part in parts), level)


def percentile_interval(
    estimate: float, resampled: npt.NDArray[np.float64], n: tuple[int, ...], level: float = 0.95
) -> Interval:
    """From the estimates of resamples."""
    tail = _tail(level)
    low, high = np.quantile(resampled, [tail, 1.0 - tail])
    return Interval(estimate, float(low), float(high), level, n, f"percentile bootstrap, {len(resampled)} resamples")


def bootstrap_difference(
    metric: Metric,
    first: Sequence[npt.ArrayLike],
    second: Sequence[npt.ArrayLike],
    *,
    seed: int,
    units: Sequence[npt.ArrayLike | None] | None = None,
    joint: bool = False,
    resamples: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Interval of `metric(*first) - metric(*second)`, paired: row i of both is the same prompt or null text."""
    pairs = [np.stack([np.asarray(a), np.asarray(b)]) for a, b in zip(first, second, strict=True)]
    rows = [np.moveaxis(pair, 0, 1) for pair in pairs]

    def difference(*drawn: npt.NDArray[Any]) -> float:
        return metric(*(pair[:, 0] for pair in drawn)) - metric(*(pair[:, 1] for pair in drawn))

    return bootstrap(difference, *rows, seed=seed, units=units, joint=joint, resamples=resamples, level=level)


@dataclass(frozen=True, slots=True)
class _Sample:
    values: npt.NDArray[Any]
    names: npt.NDArray[Any]
    """Of the units, sorted."""
    rows: list[Rows] | None
    """Of each unit; None when every row is a unit of its own."""

    @classmethod
    def of(cls, sample: npt.ArrayLike, units: npt.ArrayLike | None) -> _Sample:
        values = np.asarray(sample)
        if values.ndim == 0 or not len(values):
            raise CalibrationError("there is nothing to resample in an empty sample")
        if units is None:
            return cls(values, np.arange(len(values)), None)
        names, unit_of_row = np.unique(np.asarray(units), return_inverse=True)
        if len(unit_of_row) != len(values):
            raise CalibrationError(f"{len(unit_of_row)} unit labels for {len(values)} rows")
        borders = np.cumsum(np.bincount(unit_of_row))[:-1]
        return cls(values, names, np.split(np.argsort(unit_of_row, kind="stable"), borders))

    def drawn(self, draw: Rows) -> npt.NDArray[Any]:
        rows = draw if self.rows is None else np.concatenate([self.rows[unit] for unit in draw])
        return self.values[rows]


def _tail(level: float) -> float:
    if not 0.0 < level < 1.0:
        raise CalibrationError(f"the level of an interval lies between 0 and 1, not at {level}")
    return (1.0 - level) / 2.0
