"""The resamples of a comparison: read off counts, they are number for number what the plain metrics say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmbench.detection import auc, bootstrap_difference, tpr_at_fpr
from wmbench.detection.intervals import percentile_interval
from wmbench.detection.paired import ResampledNegatives, drawn_counts, shares


@settings(max_examples=60, deadline=None)
@given(
    pos=st.lists(st.integers(-3, 6), min_size=1, max_size=12),
    neg=st.lists(st.integers(-4, 4), min_size=1, max_size=25),
    fpr=st.sampled_from([0.0, 0.005, 0.05, 0.29, 0.5, 1.0]),
    seed=st.integers(0, 1000),
)
def test_every_resample_has_the_figures_of_its_texts(pos: list[int], neg: list[int], fpr: float, seed: int) -> None:
    """Small integers: ties between and within both sides."""
    positives, negatives = np.array(pos, dtype=float), np.array(neg, dtype=float)
    generator = np.random.default_rng(seed)
    of_neg, of_pos = drawn_counts(len(neg), 7, generator), drawn_counts(len(pos), 7, generator)
    nulls = ResampledNegatives.of(negatives, of_neg)
    areas, rates = nulls.auc(positives, of_pos), nulls.tpr(positives, of_pos, fpr)
    for i in range(7):
        drawn = np.repeat(positives, of_pos[i]), np.repeat(negatives, of_neg[i])
        assert areas[i] == auc(*drawn)
        assert rates[i] == tpr_at_fpr(*drawn, fpr)
        assert shares(positives > 0, of_pos)[i] == np.mean(drawn[0] > 0)


def test_draws_are_even_and_as_many_as_there_are_texts() -> None:
    drawn = drawn_counts(20, 4000, np.random.default_rng(0))
    assert set(drawn.sum(axis=1)) == {20}
    assert drawn.mean(axis=0) == pytest.approx(np.ones(20), abs=0.1)
    assert drawn.var() == pytest.approx(0.95, abs=0.03)  # binomial: 20 draws, each with 1/20


def test_the_interval_is_that_of_the_plain_bootstrap() -> None:
    """Other draws, the same law."""
    draw = np.random.default_rng(2)
    hard, nulls = draw.normal(1, 1, 80), draw.normal(size=(400, 2))
    sides = np.stack([hard + 0.4 + draw.normal(0, 0.5, 80), hard], axis=1)
    plain = bootstrap_difference(auc, (sides[:, 0], nulls[:, 0]), (sides[:, 1], nulls[:, 1]), seed=0, resamples=2000)
    of_neg, of_pos = drawn_counts(400, 2000, draw), drawn_counts(80, 2000, draw)
    first, second = (ResampledNegatives.of(nulls[:, s], of_neg).auc(sides[:, s].copy(), of_pos) for s in (0, 1))
    fast = percentile_interval(plain.estimate, first - second, (80, 400))
    assert (fast.low, fast.high) == pytest.approx((plain.low, plain.high), abs=0.008)
