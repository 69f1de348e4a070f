"""Counting, p-values, verdicts."""

from __future__ import annotations

import numpy as np
import pytest
from wmbench_dlm_kgw.config import DlmKgwConfig
from wmbench_dlm_kgw.decode import DlmKgw
from wmbench_dlm_kgw.detect import GreenDetector, GreenViews, scored_positions
from wmbench_dlm_kgw.laws import moments, normal_z, quantiles, tail_p

from wmbench.detection import Calibration
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.tiny import ToyCodec
from wmbench.testing import run_scheme, score_texts, toy_key, toy_samples, toy_texts
from wmbench.testing.harness import SHORT, hooks_of
from wmbench.types import SchemeContext, TextContext

CODEC = ToyCodec(61)


def detector(**settings: object) -> GreenDetector:
    return GreenDetector(DlmKgwConfig(**settings), SchemeContext(CODEC))


@pytest.mark.parametrize("kernel", [(-1,), (1,), (-3,), (-2, -1), (-1, 2), (-2, 1, 3)], ids=str)
def test_each_tuple_counts_once(kernel: tuple[int, ...]) -> None:
    ids = np.random.default_rng(0).integers(0, 4, 80)
    seen, expected = set(), []
    for t in range(len(ids)):
        if all(0 <= t + offset < len(ids) for offset in kernel):
            context = tuple(ids[t + offset] for offset in kernel)
            if (context, ids[t]) not in seen:
                seen.add((context, ids[t]))
                expected.append((t, *context))
    positions, contexts = scored_positions(ids, kernel)
    assert np.column_stack([positions, contexts]).tolist() == [list(row) for row in expected]


def test_too_short_texts_say_nothing() -> None:
    scheme = detector(convolution_kernel=(-2, -1))
    hooks = hooks_of(scheme, codec=CODEC)
    views = hooks.score(hooks.features(["", "w7", "w7 w8"], TextContext()), toy_key(), TextContext())
    assert views.scores[:, 0].tolist() == [0, 0, 0]
    nothing = np.zeros(1, dtype=np.int64)
    for kind in ("bernoulli", "gaussian", "lognormal"):
        config = DlmKgwConfig(greenlist_type=kind)
        assert tail_p(nothing, nothing, config).tolist() == [1.0]
        assert normal_z(nothing, nothing, config).tolist() == [0.0]


def test_verdicts_carry_the_exact_p() -> None:
    context = TextContext(alpha=0.05, evidence=True)
    texts = toy_texts([60] * 5, seed=1)
    verdicts = {}
    for p_value in ("empirical", "exact"):
        hooks = hooks_of(detector(p_value=p_value), codec=CODEC)
        views = hooks.score(hooks.features(texts, context), toy_key(), context)
        nulls = hooks.score(hooks.features(toy_texts([60] * 40, seed=2), context), toy_key(), context)
        calibration = Calibration(nulls.scores, nulls.names) if p_value == "empirical" else None
        verdicts[p_value] = hooks.detect(views, calibration, context)
    for empirical, exact in zip(verdicts["empirical"], verdicts["exact"], strict=True):
        assert empirical.method.startswith("empirical")
        assert exact.method.startswith("exact binomial")
        np.testing.assert_allclose(empirical.details["exact_p"], exact.p_value)
        assert empirical.details["raw_score"] == empirical.details["z"] == exact.details["z"]
        assert len(exact.evidence) == exact.details["scored"]
        assert sum(e.label == "green" for e in exact.evidence) == exact.details["green"]
        np.testing.assert_allclose(
            sum(e.weight for e in exact.evidence), exact.details["green"] - 0.25 * exact.details["scored"]
        )


def test_exact_p_is_uniform_over_keys() -> None:
    """Distinct bigrams have independent colours, so that over keys the green count is binomial for any text."""
    scheme, (text,) = detector(), toy_texts([120], seed=3)
    hooks = hooks_of(scheme, codec=CODEC)
    features = hooks.features([text], TextContext())
    green = []
    for i in range(400):
        views = scheme.score(features, toy_key(f"uniform {i}"), TextContext())
        assert isinstance(views, GreenViews)
        assert views.green is not None
        assert views.scored is not None
        green.append(int(views.green[0]))
        n = int(views.scored[0])
    assert abs(np.mean(green) - n / 4) < 4 * np.sqrt(n * 3 / 16 / 400)
    assert 0.8 < np.var(green) / (n * 3 / 16) < 1.2  # five standard errors are 0.35


@pytest.mark.parametrize("kind", ["gaussian", "lognormal"])
def test_laws_of_real_valued_pairs(kind: str) -> None:
    """Moments and tails against drawn sums. (The log-normal tail is an approximation.)"""
    config = DlmKgwConfig(greenlist_type=kind)
    values = quantiles(np.random.default_rng(0).random((20_000, 60)), config)
    mean, variance = moments(config)
    assert values.mean() == pytest.approx(mean, abs=0.01)
    assert values.var() == pytest.approx(variance, rel=0.03)
    pairs = np.full(len(values), 60)
    assert np.abs(normal_z(values.sum(1), pairs, config).mean()) < 0.03
    p = tail_p(values.sum(1), pairs, config)
    for level in (0.5, 0.1, 0.01):
        assert (p <= level).mean() == pytest.approx(level, rel=0.4 if level < 0.1 else 0.1)


@pytest.mark.parametrize("prf", ["hmac", "official"])
def test_real_valued_pairs_are_added_up(prf: str) -> None:
    context, texts = TextContext(evidence=True), toy_texts([60, 1, 80], seed=4)
    hooks = hooks_of(detector(greenlist_type="gaussian", p_value="exact", prf=prf), codec=CODEC)
    views = hooks.score(hooks.features(texts, context), toy_key(), context)
    for verdict in hooks.detect(views, None, context):
        assert sum(e.weight for e in verdict.evidence) == pytest.approx(verdict.details["green"])
        assert verdict.details["z"] == pytest.approx(
            verdict.details["green"] / max(1, verdict.details["scored"]) ** 0.5
        )
        assert verdict.method.startswith("normal law")


def test_tiny_p_values_stay_positive() -> None:
    assert tail_p(np.array([5000]), np.array([5000]), DlmKgwConfig())[0] == 1e-300


@pytest.mark.parametrize("attention", ["full", "block"])
def test_clean_detection_is_obvious(attention: str, request: pytest.FixtureRequest) -> None:
    backbone: Backbone = request.getfixturevalue(f"tiny_{attention}_backbone")
    decoding = SHORT.model_copy(update={"max_new_tokens": 80, "tokens_per_step": 4})
    scheme = DlmKgw(DlmKgwConfig(delta=10.0, p_value="exact"), SchemeContext(backbone.codec, toy_key()))
    texts = [generation.text for generation in run_scheme(scheme, backbone, toy_samples(6), decoding)]
    assert score_texts(scheme, backbone.codec, texts, toy_key()).scores.min() > -np.log(1e-6)
