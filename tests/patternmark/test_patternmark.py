"""Key chain, null law by brute force, windows, verdicts, decoding."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from wmbench_patternmark.config import PatternMarkConfig
from wmbench_patternmark.decode import PatternMark
from wmbench_patternmark.detect import PatternDetector, pattern_windows
from wmbench_patternmark.keys import chain, official_seed, token_colours
from wmbench_patternmark.null import Patterns, null_tail

from wmbench.bench.draws import attempts
from wmbench.detection import Calibration
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.tiny import ToyCodec
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.step import Step
from wmbench.testing import run_scheme, score_texts, toy_key, toy_samples, toy_texts
from wmbench.testing.harness import SHORT, hooks_of
from wmbench.types import Commit, Sample, SchemeContext, TextContext

CODEC = ToyCodec(61)


# --- the null law --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patterns", "colours"),
    [
        (((0, 1, 0, 1), (1, 0, 1, 0)), 2),
        (((0, 0),), 2),
        (((1,),), 3),
        (((0, 1, 2), (2, 1, 0), (1, 1, 1)), 3),
    ],
    ids=str,
)
def test_null_law_by_brute_force(patterns: Patterns, colours: int) -> None:
    m = len(patterns[0])
    for tokens in range(m + 1, 13 if colours == 2 else 9):
        counts = [
            sum(sequence[i : i + m] in patterns for i in range(tokens - m))
            for sequence in product(range(colours), repeat=tokens)
        ]
        law = np.bincount(counts, minlength=tokens - m + 1) / colours**tokens
        np.testing.assert_allclose(null_tail(tokens, patterns, colours), law[::-1].cumsum()[::-1], atol=1e-12)


def test_null_mean_of_300_tokens() -> None:
    """296 windows, each a pattern with probability 1/8."""
    assert null_tail(300, PatternMarkConfig().patterns, 2)[1:].sum() == pytest.approx(37.0)


# --- keys ----------------------------------------------------------------------------------------------------------


def test_partition_is_balanced_and_keyed() -> None:
    config = PatternMarkConfig(
        colours=3, initial_state=(1, 1, 1), transition_matrix=((0, 1, 1),) * 3, patterns=((0, 1, 2),)
    )
    one, other = (token_colours(config, 101, toy_key(label)) for label in ("one", "other"))
    assert np.bincount(one).tolist() == np.bincount(other).tolist() == [33, 33, 35]
    assert not np.array_equal(one, other)


def test_chain_follows_its_weights() -> None:
    assert chain(PatternMarkConfig(), np.array([0.3, *[0.5] * 6])).tolist() == [1, 0, 1, 0, 1, 0]
    assert chain(PatternMarkConfig(), np.array([0.7, *[0.999] * 6])).tolist() == [0, 1, 0, 1, 0, 1]
    config = PatternMarkConfig(transition_matrix=((1, 4), (3, 1)))
    keys = chain(config, np.random.default_rng(0).random(20_001))
    stays = [(keys[1:] == keys[:-1])[keys[:-1] == colour].mean() for colour in (0, 1)]
    np.testing.assert_allclose(stays, [0.2, 0.25], atol=0.02)


@pytest.mark.parametrize("prf", ["hmac", "official"])
def test_keys_are_drawn_once_per_sample(prf: str, tiny_full_backbone: Backbone) -> None:
    scheme = PatternMark(PatternMarkConfig(prf=prf), SchemeContext(tiny_full_backbone.codec, toy_key()))
    seen: dict[str, list[np.ndarray]] = {}

    def decide(step: Step) -> Commit:
        commit = scheme.decode_step(step)
        for row in step.rows:
            seen.setdefault(row.sample.id, []).append(row.state.keys)
        return commit

    list(decode(toy_samples(12), make_engine(tiny_full_backbone, SHORT), SHORT, decide, scheme.begin))
    assert all(keys is chains[0] for chains in seen.values() for keys in chains)
    assert all((np.diff(chains[0]) != 0).all() for chains in seen.values()), "strictly alternating"
    assert {int(chains[0][0]) for chains in seen.values()} == {0, 1}, "the first key is random"


def test_every_attempt_has_its_published_seed() -> None:
    """Seed 42 + 1000 * prompt index + attempt; the host numbers attempts from 1 and leaves the first one unnumbered."""
    first, third = list(attempts(Sample("p7", "w3", index=7), retries=2))[::2]
    assert (official_seed(first), official_seed(third)) == (7042, 7044)


# --- counting and verdicts -----------------------------------------------------------------------------------------


def test_last_window_is_not_looked_at() -> None:
    colours, config = np.array([0, 1], dtype=np.int8), PatternMarkConfig()
    assert pattern_windows(np.array([0, 1, 0, 1]), colours, config).tolist() == []
    assert pattern_windows(np.array([0, 1, 0, 1, 1]), colours, config).tolist() == [0]
    assert pattern_windows(np.array([0, 1, 0, 1, 0]), colours, config).tolist() == [0]


def test_unknown_ids_are_dropped() -> None:
    colours, config = np.array([0, 1], dtype=np.int8), PatternMarkConfig()
    assert pattern_windows(np.array([0, 1, 7, 0, 1, 7, 1]), colours, config).tolist() == [0]


def test_too_short_texts_say_nothing() -> None:
    detector = PatternDetector(PatternMarkConfig(), SchemeContext(CODEC))
    scores = score_texts(detector, CODEC, ["", "w3", "w3 w4 w5 w6"], toy_key()).scores
    assert scores[:, 0].tolist() == [0, 0, 0]


def test_only_the_first_tokens_count() -> None:
    text, longer = toy_texts([40, 80], seed=1)
    detector = PatternDetector(PatternMarkConfig(max_tokens=40), SchemeContext(CODEC))
    one, both = score_texts(detector, CODEC, [text, f"{text} {longer}"], toy_key()).scores[:, 0]
    assert one == both


def test_verdicts_carry_the_exact_p() -> None:
    context, texts = TextContext(alpha=0.05, evidence=True), toy_texts([60] * 5, seed=1)
    verdicts = {}
    for p_value in ("empirical", "exact"):
        detector = PatternDetector(PatternMarkConfig(p_value=p_value), SchemeContext(CODEC))
        hooks = hooks_of(detector, codec=CODEC)
        views = hooks.score(hooks.features(texts, context), toy_key(), context)
        nulls = hooks.score(hooks.features(toy_texts([60] * 40, seed=2), context), toy_key(), context)
        calibration = Calibration(nulls.scores, nulls.names) if p_value == "empirical" else None
        verdicts[p_value] = hooks.detect(views, calibration, context)
    tail = null_tail(60, PatternMarkConfig().patterns, 2)
    for empirical, exact in zip(verdicts["empirical"], verdicts["exact"], strict=True):
        assert empirical.method.startswith("empirical")
        assert exact.method.startswith("exact law")
        assert empirical.details["exact_p"] == exact.details["exact_p"] == exact.p_value
        np.testing.assert_allclose(exact.p_value, tail[len(exact.evidence)])


@pytest.mark.parametrize("attention", ["full", "block"])
def test_clean_detection_is_obvious(attention: str, request: pytest.FixtureRequest) -> None:
    backbone: Backbone = request.getfixturevalue(f"tiny_{attention}_backbone")
    decoding = SHORT.model_copy(update={"max_new_tokens": 80, "tokens_per_step": 8})
    scheme = PatternMark(PatternMarkConfig(delta=6.0), SchemeContext(backbone.codec, toy_key()))
    texts = [generation.text for generation in run_scheme(scheme, backbone, toy_samples(6), decoding)]
    assert score_texts(scheme, backbone.codec, texts, toy_key()).scores.min() > -np.log(1e-6)


# --- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patterns": ((0, 1), (1,))}, "same length"),
        ({"patterns": ((0, 2),)}, "colours 0 to 1"),
        ({"patterns": ((0,) * 20,)}, "null law"),
        ({"colours": 3, "patterns": ((0, 1),)}, "per colour"),
        ({"initial_state": (0.0, 0.0)}, "all zero"),
        ({"initial_state": (float("inf"), 1.0)}, "finite number"),
        ({"transition_matrix": ((float("nan"), 1.0), (1.0, 0.0))}, "finite number"),
    ],
)
def test_contradictions_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PatternMarkConfig(**settings)
