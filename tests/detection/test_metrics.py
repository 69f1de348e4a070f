"""TPR at FPR, ROC and AUC: golden numbers, the rules written out, properties."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmbench.detection import auc, operating_point, roc, split_rule, tpr_at_fpr
from wmbench.errors import CalibrationError

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "denmark_roc.json").read_text())
CASES = {case["name"]: case for case in GOLDEN["sets"]}
KEY_OF_RULE = {
    "threshold": "tpr_paper_text_rule",
    "order_statistic": "tpr_order_statistic",
    "interpolated": "tpr_linear_roc",
}

COARSE = st.integers(-3, 3).map(float)
SCORES = st.lists(COARSE, min_size=1, max_size=12) | st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12)
RATES = st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rule", KEY_OF_RULE)
def test_golden_rates(name: str, rule: Any) -> None:
    case = CASES[name]
    for rate in case["rates"]:
        expected = rate[KEY_OF_RULE[rule]]
        assert tpr_at_fpr(case["pos"], case["neg"], rate["fpr"], rule) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("name", CASES)
def test_golden_auc_and_thresholds(name: str) -> None:
    case = CASES[name]
    assert auc(case["pos"], case["neg"]) == pytest.approx(case["auc"], rel=1e-15)
    assert auc(case["pos"], case["neg"]) == pytest.approx(case["auc_rank_sum"], rel=1e-15)
    for rate in case["rates"]:
        point = operating_point(case["pos"], case["neg"], rate["fpr"], "order_statistic")
        assert point.threshold == rate["order_statistic_threshold"]


def naive_paper_rule(pos: list[float], neg: list[float], fpr: float) -> float:
    """The highest TPR over all thresholds with measured FPR <= fpr."""
    best = 0.0
    for threshold in (*pos, *neg):
        if sum(x >= threshold for x in neg) / len(neg) <= fpr:
            best = max(best, sum(x >= threshold for x in pos) / len(pos))
    return best


@given(SCORES, SCORES, RATES)
def test_the_papers_rule_written_out(pos: list[float], neg: list[float], fpr: float) -> None:
    expected = naive_paper_rule(pos, neg, fpr)
    point = operating_point(pos, neg, fpr)
    assert point.tpr == tpr_at_fpr(pos, neg, fpr) == expected
    assert point.fpr <= fpr
    assert point.fpr == sum(x > point.threshold for x in neg) / len(neg)
    assert tpr_at_fpr(pos, neg, fpr, "interpolated") >= expected - 1e-12


@pytest.mark.parametrize("n", [7, 100, 300, 10_000])
def test_rates_are_compared_as_measured(n: int) -> None:
    """k of n negatives are a rate of k/n, also where k/n * n is rounded below k."""
    neg = np.arange(n, dtype=np.float64)
    for k in np.unique(np.linspace(0, n, 101).astype(int)).tolist():
        point = operating_point([-1.0], neg, k / n)
        assert round(point.fpr * n) == k


@given(SCORES, SCORES, RATES, RATES)
def test_rates_grow_together(pos: list[float], neg: list[float], a: float, b: float) -> None:
    low, high = sorted((a, b))
    for rule in ("threshold", "order_statistic", "interpolated"):
        assert tpr_at_fpr(pos, neg, low, rule) <= tpr_at_fpr(pos, neg, high, rule) + 1e-12
        assert tpr_at_fpr(pos, neg, 1.0, rule) == 1.0


@given(SCORES, SCORES)
def test_auc_written_out(pos: list[float], neg: list[float]) -> None:
    wins = sum((p > n) + (p == n) / 2 for p in pos for n in neg)
    assert auc(pos, neg) == pytest.approx(wins / (len(pos) * len(neg)), rel=1e-15)
    assert auc(pos, neg) + auc(neg, pos) == pytest.approx(1.0, rel=1e-15)
    assert auc(pos, pos) == 0.5
    curve = roc(pos, neg)
    assert np.trapezoid(curve.tpr, curve.fpr) == pytest.approx(auc(pos, neg), abs=1e-12)


@given(SCORES, SCORES)
def test_roc_points(pos: list[float], neg: list[float]) -> None:
    curve = roc(pos, neg)
    assert (curve.fpr[0], curve.tpr[0], curve.thresholds[0]) == (0.0, 0.0, math.inf)
    assert (curve.fpr[-1], curve.tpr[-1]) == (1.0, 1.0)
    assert (np.diff(curve.thresholds) < 0).all()
    for fpr, tpr, threshold in zip(curve.fpr, curve.tpr, curve.thresholds, strict=True):
        assert fpr == sum(x >= threshold for x in neg) / len(neg)
        assert tpr == sum(x >= threshold for x in pos) / len(pos)


@given(SCORES, SCORES, st.randoms(use_true_random=False), RATES)
def test_order_and_scale_do_not_matter(pos: list[float], neg: list[float], random: Any, fpr: float) -> None:
    ranks = {score: float(rank) for rank, score in enumerate(sorted({*pos, *neg}))}
    ranked_pos, ranked_neg = [ranks[x] for x in pos], [ranks[x] for x in neg]
    random.shuffle(ranked_pos)
    random.shuffle(ranked_neg)
    assert auc(ranked_pos, ranked_neg) == auc(pos, neg)
    for rule in ("threshold", "order_statistic", "interpolated"):
        assert tpr_at_fpr(ranked_pos, ranked_neg, fpr, rule) == tpr_at_fpr(pos, neg, fpr, rule)


@given(SCORES, SCORES, SCORES, RATES)
def test_the_split_rule_takes_its_threshold_from_calibration_only(
    pos: list[float], calibration: list[float], heldout: list[float], fpr: float
) -> None:
    point = split_rule(pos, calibration, heldout, fpr)
    assert point.threshold == operating_point(pos, calibration, fpr).threshold
    assert point.tpr == sum(x > point.threshold for x in pos) / len(pos)
    assert point.fpr == sum(x > point.threshold for x in heldout) / len(heldout)


def test_the_split_rule_shows_a_shift_that_the_papers_rule_hides() -> None:
    calibration, heldout, pos = np.arange(100.0), np.arange(100.0) + 50.0, np.full(10, 120.0)
    assert operating_point(pos, heldout, 0.05).fpr == 0.05
    assert split_rule(pos, calibration, heldout, 0.05).fpr == 0.55


def test_auc_of_many_scores_is_fast() -> None:
    rng = np.random.default_rng(0)
    assert auc(rng.normal(1.0, size=200_000), rng.normal(size=200_000)) == pytest.approx(0.76025, abs=0.003)


@pytest.mark.parametrize("bad", [[], [math.nan], [[1.0]], 3.0])
def test_scores_that_cannot_be_ranked_are_refused(bad: Any) -> None:
    good = [1.0, 2.0]
    for call in (
        lambda: auc(bad, good),
        lambda: auc(good, bad),
        lambda: roc(good, bad),
        lambda: tpr_at_fpr(bad, good, 0.1),
        lambda: tpr_at_fpr(good, bad, 0.1, "interpolated"),
        lambda: split_rule(good, good, bad, 0.1),
        lambda: split_rule(good, bad, good, 0.1),
    ):
        with pytest.raises(CalibrationError):
            call()


@pytest.mark.parametrize("fpr", [-0.1, 1.1, math.nan])
@pytest.mark.parametrize("rule", KEY_OF_RULE)
def test_rates_outside_0_1_are_refused(fpr: float, rule: Any) -> None:
    with pytest.raises(CalibrationError, match="rate"):
        tpr_at_fpr([1.0], [0.0], fpr, rule)


def test_unknown_rules_are_refused() -> None:
    with pytest.raises(CalibrationError, match="unknown TPR rule 'exact'"):
        tpr_at_fpr([1.0], [0.0], 0.1, "exact")  # type: ignore[arg-type]
