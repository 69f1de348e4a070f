"""Proposition 1 by simulation: P(p_scan <= alpha) <= alpha for null texts, whatever the dependence of the views.

The harness draws many calibration sets and judges fresh null texts with each. Texts that share a calibration set are
dependent, so the standard error is that of the sets' own rates. The same harness must catch planted bugs.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from wmbench.detection import Calibration

Floats = npt.NDArray[np.float64]
Judge = Callable[[Floats, Floats], Floats]
"""(null scores, test scores) -> p-value of each test text."""

VIEWS = 26
SEEDS = range(10)
CORRELATIONS = (0.0, 0.5, 0.9)
NAMES = tuple(str(size) for size in range(12, 38))


def p_scan(nulls: Floats, texts: Floats) -> Floats:
    return Calibration(nulls, NAMES).scan(texts).p_scan


def min_p(nulls: Floats, texts: Floats) -> Floats:
    return Calibration(nulls, NAMES).min_p(texts)


def planted_no_bonferroni(nulls: Floats, texts: Floats) -> Floats:
    return np.asarray(Calibration(nulls, NAMES).scan(texts).p.min(axis=1))


def planted_no_plus_one(nulls: Floats, texts: Floats) -> Floats:
    counts = Calibration(nulls, NAMES).scan(texts).p * (len(nulls) + 1) - 1
    return np.asarray(np.minimum(1.0, VIEWS * counts.min(axis=1) / len(nulls)))


def correlated_views(generator: np.random.Generator, n: int, correlation: float) -> Floats:
    common, own = generator.normal(size=(n, 1)), generator.normal(size=(n, VIEWS))
    return math.sqrt(correlation) * common + math.sqrt(1.0 - correlation) * own


def false_positive_rate(
    judge: Judge, *, alpha: float, n0: int, correlation: float, sets: int = 20, texts: int = 100
) -> tuple[float, float]:
    """Rate over 10 seeds x `sets` calibration sets x `texts` null texts, and its standard error clustered by set."""
    rates = []
    for seed in SEEDS:
        generator = np.random.Generator(np.random.Philox(seed))
        for _ in range(sets):
            pool = correlated_views(generator, n0 + texts, correlation)
            rates.append(np.mean(judge(pool[:n0], pool[n0:]) <= alpha))
    return float(np.mean(rates)), float(np.std(rates, ddof=1) / math.sqrt(len(rates)))


def controls(judge: Judge, *, alpha: float, n0: int, correlation: float) -> bool:
    rate, error = false_positive_rate(judge, alpha=alpha, n0=n0, correlation=correlation)
    return rate <= alpha + 3.0 * error


@pytest.mark.parametrize("correlation", CORRELATIONS)
@pytest.mark.parametrize(("alpha", "n0"), [(0.05, 519), (0.3, 100)])
def test_the_scan_controls_false_positives(correlation: float, alpha: float, n0: int) -> None:
    assert controls(p_scan, alpha=alpha, n0=n0, correlation=correlation)


def test_the_scan_is_not_idle() -> None:
    """Nearly exhausts alpha for independent views: a p-value that is always 1 would also control errors."""
    rate, error = false_positive_rate(p_scan, alpha=0.05, n0=519, correlation=0.0)
    assert rate > 0.04 - 3.0 * error
    assert error < 0.005


@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_the_harness_catches_missing_bonferroni(correlation: float) -> None:
    assert not controls(planted_no_bonferroni, alpha=0.05, n0=519, correlation=correlation)


@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_the_harness_catches_a_missing_plus_one(correlation: float) -> None:
    """Without it a text above all 100 nulls in any view has p = 0, at every alpha. (At correlation 0.9 that happens to
    4% of null texts, so alpha must be smaller than that.)"""
    assert not controls(planted_no_plus_one, alpha=0.01, n0=100, correlation=correlation)
    assert controls(p_scan, alpha=0.01, n0=100, correlation=correlation)


@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_min_p_controls_false_positives_and_is_sharper(correlation: float) -> None:
    rate, error = false_positive_rate(min_p, alpha=0.05, n0=519, correlation=correlation)
    scan_rate, _ = false_positive_rate(p_scan, alpha=0.05, n0=519, correlation=correlation)
    assert rate <= 0.05 + 3.0 * error
    assert rate >= scan_rate
    if correlation == 0.9:
        assert rate > 2.0 * scan_rate
