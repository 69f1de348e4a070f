"""Intervals: exact binomial ones against their definition, bootstrap ones against known laws and coverage."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from wmbench.detection import auc, bootstrap, bootstrap_difference, clopper_pearson, tpr_at_fpr
from wmbench.errors import CalibrationError


def mean(sample: np.ndarray) -> float:
    return float(sample.mean())


# --- Clopper-Pearson ---------------------------------------------------------------------------------------------


def test_clopper_pearson_known_values() -> None:
    """0 of n: the high end is 1 - (tail)^(1/n)."""
    none = clopper_pearson(0, 20)
    assert (none.estimate, none.low) == (0.0, 0.0)
    assert none.high == pytest.approx(1 - 0.025 ** (1 / 20), rel=1e-12)
    every = clopper_pearson(20, 20)
    assert (every.estimate, every.high) == (1.0, 1.0)
    assert every.low == pytest.approx(0.025 ** (1 / 20), rel=1e-12)
    assert every.n == (20,)


@given(st.integers(1, 400), st.data(), st.floats(0.5, 0.999))
def test_clopper_pearson_is_defined_by_its_tails(trials: int, data: st.DataObject, level: float) -> None:
    successes = data.draw(st.integers(0, trials))
    interval = clopper_pearson(successes, trials, level)
    assert 0.0 <= interval.low <= interval.estimate <= interval.high <= 1.0
    if successes:
        assert stats.binom.sf(successes - 1, trials, interval.low) == pytest.approx((1 - level) / 2, rel=1e-6)
    if successes < trials:
        assert stats.binom.cdf(successes, trials, interval.high) == pytest.approx((1 - level) / 2, rel=1e-6)


def test_clopper_pearson_covers() -> None:
    trials, rate = 40, 0.03
    outcomes = np.arange(trials + 1)
    covered = [clopper_pearson(int(k), trials).low <= rate <= clopper_pearson(int(k), trials).high for k in outcomes]
    assert stats.binom.pmf(outcomes, trials, rate)[covered].sum() >= 0.95


@pytest.mark.parametrize(("successes", "trials"), [(1, 0), (0, 0), (-1, 5), (6, 5)])
def test_impossible_rates_are_refused(successes: int, trials: int) -> None:
    with pytest.raises(CalibrationError, match="not a rate"):
        clopper_pearson(successes, trials)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_impossible_levels_are_refused(level: float) -> None:
    with pytest.raises(CalibrationError, match="level"):
        clopper_pearson(1, 5, level)
    with pytest.raises(CalibrationError, match="level"):
        bootstrap(mean, [1.0, 2.0], seed=0, level=level)


# --- bootstrap ---------------------------------------------------------------------------------------------------


def test_the_seed_alone_decides() -> None:
    sample = np.random.default_rng(0).normal(size=50)
    assert bootstrap(mean, sample, seed=1, resamples=200) == bootstrap(mean, sample, seed=1, resamples=200)
    assert bootstrap(mean, sample, seed=1, resamples=200) != bootstrap(mean, sample, seed=2, resamples=200)


def test_the_width_is_that_of_the_mean() -> None:
    sample = np.random.default_rng(0).normal(size=400)
    interval = bootstrap(mean, sample, seed=3, resamples=4000, level=0.9)
    half = 1.645 * sample.std() / 20
    assert interval.estimate == sample.mean()
    assert interval.low == pytest.approx(sample.mean() - half, abs=0.08 * half)
    assert interval.high == pytest.approx(sample.mean() + half, abs=0.08 * half)
    assert (interval.n, interval.level) == ((400,), 0.9)


def test_positives_and_negatives_are_resampled_independently() -> None:
    drawn: list[tuple[float, float]] = []

    def record(a: np.ndarray, b: np.ndarray) -> float:
        drawn.append((a.mean(), b.mean()))
        return 0.0

    sample = np.random.default_rng(0).normal(size=40)
    bootstrap(record, sample, sample, seed=0, resamples=1000)
    assert abs(np.corrcoef(np.array(drawn[:1000]).T)[0, 1]) < 0.1
    drawn.clear()
    bootstrap(record, sample, sample, seed=0, resamples=1000, joint=True)
    assert all(a == b for a, b in drawn[:1000])


def test_intervals_of_auc_and_tpr_bracket_the_truth() -> None:
    rng = np.random.default_rng(5)
    pos, neg = rng.normal(1.0, size=300), rng.normal(size=600)
    of_auc = bootstrap(auc, pos, neg, seed=0, resamples=400)
    assert of_auc.estimate == auc(pos, neg)
    assert of_auc.low < 0.76025 < of_auc.high
    assert of_auc.high - of_auc.low == pytest.approx(4 * 0.0168, rel=0.2)  # Hanley-McNeil standard error
    of_tpr = bootstrap(partial(tpr_at_fpr, fpr=0.05), pos, neg, seed=0, resamples=400)
    assert of_tpr.low < stats.norm.sf(1.645 - 1.0) < of_tpr.high
    assert of_tpr.n == (300, 600)


def test_shared_keys_need_the_key_as_unit() -> None:
    """20 keys with 50 texts each, nearly all variance between keys: resampling texts misses the truth most of the
    time, resampling keys covers it."""
    covered = {"texts": 0, "keys": 0}
    keys = np.repeat(np.arange(20), 50)
    for seed in range(40):
        rng = np.random.default_rng(seed)
        scores = rng.normal(size=20)[keys] + 0.3 * rng.normal(size=1000)
        by_text = bootstrap(mean, scores, seed=seed, resamples=200)
        by_key = bootstrap(mean, scores, seed=seed, resamples=200, units=[keys])
        covered["texts"] += by_text.low <= 0.0 <= by_text.high
        covered["keys"] += by_key.low <= 0.0 <= by_key.high
        assert by_key.n == (20,)
    assert covered["texts"] < 20
    assert covered["keys"] >= 34


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=20), st.integers(0, 2**32))
@settings(max_examples=50)
def test_whole_units_are_drawn(labels: list[str], seed: int) -> None:
    values = np.arange(len(labels))
    members = {label: [i for i, other in enumerate(labels) if other == label] for label in set(labels)}

    def check(drawn: np.ndarray) -> float:
        counts = np.bincount(drawn, minlength=len(labels))
        assert sum(counts[rows[0]] for rows in members.values()) == len(members), "as many units as there are"
        assert all(len(set(counts[rows])) == 1 for rows in members.values()), "a unit's rows come together"
        return 0.0

    bootstrap(check, values, seed=seed, units=[labels], resamples=5)


def test_a_drawn_key_brings_its_positives_and_its_negatives() -> None:
    """A key that shifts positives and negatives alike does not change the AUC: only joint draws know that."""
    rng = np.random.default_rng(1)
    keys = np.repeat(np.arange(10), 30)
    shift = 3.0 * rng.normal(size=10)[keys]
    pos, neg = shift + 2.0 + rng.normal(size=300), shift + rng.normal(size=300)

    def mean_difference(p: np.ndarray, n: np.ndarray) -> float:
        return float(p.mean() - n.mean())

    apart = bootstrap(mean_difference, pos, neg, seed=0, units=[keys, keys], resamples=300)
    joint = bootstrap(mean_difference, pos, neg, seed=0, units=[keys, keys], resamples=300, joint=True)
    assert joint.high - joint.low < 0.3 * (apart.high - apart.low)
    with pytest.raises(CalibrationError, match="every unit"):
        bootstrap(mean_difference, pos, neg, seed=0, units=[keys, keys + 1], joint=True)


def test_paired_differences_are_sharper_than_unpaired_ones() -> None:
    rng = np.random.default_rng(2)
    difficulty = rng.normal(size=200)
    first = difficulty + 1.7 + 0.1 * rng.normal(size=200), rng.normal(size=200)
    second = difficulty + 1.5 + 0.1 * rng.normal(size=200), first[1]
    paired = bootstrap_difference(auc, first, second, seed=0, resamples=300)
    unpaired = bootstrap(lambda a, n, b: auc(a, n) - auc(b, n), first[0], first[1], second[0], seed=0, resamples=300)
    assert paired.estimate == auc(*first) - auc(*second)
    assert paired.low > 0.0 > unpaired.low
    same = bootstrap_difference(partial(tpr_at_fpr, fpr=0.05), first, first, seed=0, resamples=50)
    assert (same.low, same.estimate, same.high) == (0.0, 0.0, 0.0)


def test_misfits_are_refused() -> None:
    with pytest.raises(CalibrationError, match="empty"):
        bootstrap(mean, [], seed=0)
    with pytest.raises(CalibrationError, match="2 unit labels for 3 rows"):
        bootstrap(mean, [1.0, 2.0, 3.0], seed=0, units=[["a", "b"]])
    with pytest.raises(ValueError, match="zip"):
        bootstrap(mean, [1.0, 2.0], seed=0, units=[None, None])
    with pytest.raises(ValueError, match="shape"):
        bootstrap_difference(auc, ([1.0, 2.0], [0.0]), ([1.0], [0.0]), seed=0)
