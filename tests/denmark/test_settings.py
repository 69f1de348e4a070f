"""Presets, bad configurations, options, and what a step costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import wmbench_denmark
from pydantic import ValidationError
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.scheme import DenMark

from wmbench.cli.app import run_cli
from wmbench.errors import ConfigError
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.runtime.settings import Decoding
from wmbench.testing import ToyEncoder, run_scheme, toy_key, toy_samples
from wmbench.types import Encoder, Generation, SchemeContext

BACKBONE = TinyBackbone(TinyConfig(layers=1))
SHORT = Decoding(max_new_tokens=13, block_length=5)
SMALL = {"unit_size": 5, "candidates": 4}


def generated(
    decoding: Decoding = SHORT, encoder: Encoder | None = None, samples: int = 3, **settings: Any
) -> list[Generation]:
    chosen = encoder or ToyEncoder()
    context = SchemeContext(BACKBONE.codec, toy_key("settings"), lambda name: chosen)
    scheme = DenMark(DenMarkConfig(**{**SMALL, **settings}), context)
    return run_scheme(scheme, BACKBONE, toy_samples(samples), decoding)


def tokens(generations: list[Generation]) -> list[tuple[int, ...]]:
    return [generation.token_ids for generation in generations]


# --- configuration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"unit_size": 0}, "unit_size"),
        ({"candidates": 0}, "candidates"),
        ({"channels": 0}, "channels"),
        ({"rollouts": 0}, "rollouts"),
        ({"positions_per_candidate": 0}, "positions_per_candidate"),
        ({"scan_sizes": ()}, "scan_sizes"),
        ({"scan_sizes": "37..12"}, "scan_sizes"),
        ({"scan_sizes": (12, 0)}, "scan_sizes"),
        ({"scan_sizes": (12, 12)}, "listed twice"),
        ({"candidate_temperature": -0.1}, "candidate_temperature"),
        ({"rollout_temperature": -1}, "rollout_temperature"),
        ({"likely_fraction": 0}, "likely_fraction"),
        ({"likelihood_weight": -0.01}, "likelihood_weight"),
        ({"likelihood_weight": float("inf")}, "likelihood_weight"),
        ({"prefilter": 16}, "must be smaller"),
        ({"preset": "slow"}, "preset"),
        ({"preset": ["fast"]}, "preset"),
        ({"candidate_temperature": float("inf")}, "finite number"),
        ({"rollout_temperature": float("nan")}, "rollout_temperature"),
        ({"unknown": 1}, "unknown"),
        ({"direction_seed": 2**64}, "direction_seed"),
        ({"sign_seed": -1}, "sign_seed"),
    ],
)
def test_bad_configuration_is_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        DenMarkConfig(**settings)


def test_presets_lie_below_the_users_settings() -> None:
    assert DenMarkConfig().positions_per_candidate == 1
    assert DenMarkConfig(preset="fast").positions_per_candidate == 4
    assert DenMarkConfig(preset="fast", positions_per_candidate=2).positions_per_candidate == 2
    assert DenMarkConfig(scan_sizes="5..7").scan_sizes == (5, 6, 7)


def test_published_settings_are_valid() -> None:
    info = wmbench_denmark.register_schemes()[0]
    assert set(info.settings) == {"llada-8b", "llada-1.5", "llada2.0-mini", "dream-7b", "mini", "mini-full"}
    for backbone, settings in info.settings.items():
        Decoding(**settings.get("decoding", {}))
        config = DenMarkConfig(**{name: value for name, value in settings.items() if name != "decoding"})
        expected = {"mini": (25, 64, 1, 6), "mini-full": (18, 32, 1, 6)}.get(backbone, (25, 16, 2, 3))
        assert (config.unit_size, config.candidates, config.channels, config.rollouts) == expected
        assert config.scan_sizes == tuple(range(config.unit_size // 2, config.unit_size * 3 // 2 + 1))
        assert (config.likelihood_weight > 0) == (backbone == "mini")


def test_candidates_may_have_a_nucleus_of_their_own() -> None:
    """As narrow as can be it leaves the likeliest token only, which temperature 0 takes as well."""
    narrow, greedy = tokens(generated(candidate_top_p=1e-9)), tokens(generated(candidate_temperature=0.0))
    assert narrow == greedy != tokens(generated())


class LyingEncoder(ToyEncoder):
    """Declares another dimension than its vectors have."""

    dimension = 17

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return ToyEncoder().encode(texts)


def test_encoder_dimension_is_checked() -> None:
    with pytest.raises(ConfigError, match="wrong dimension"):
        generated(dimension=768)
    with pytest.raises(ConfigError, match="wrong dimension"):
        generated(encoder=LyingEncoder())
    scheme = DenMark(DenMarkConfig(), SchemeContext(BACKBONE.codec, load_encoder=lambda name: LyingEncoder()))
    with pytest.raises(ConfigError, match="wrong dimension"):
        scheme.features(["w5 w6"])


class BrokenEncoder(ToyEncoder):
    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return super().encode(texts) * np.float32("nan")


def test_vectors_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ConfigError, match="no numbers"):
        generated(encoder=BrokenEncoder(), samples=1)


@pytest.mark.parametrize(
    "setting",
    ["unit_size=0", "candidates=0", "channels=0", "scan_sizes=[]", "scan_sizes=9..8", "candidate_temperature=-0.1"],
)
def test_bad_settings_end_a_command_with_a_message(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["run", "--scheme", "denmark", "--dry-run", "-S", setting]) == 2
    shown = capsys.readouterr().err
    assert setting.partition("=")[0] in shown
    assert "Traceback" not in shown


# --- generation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"unit_size": 1},
        {"unit_size": 50},
        {"candidates": 1},
        {"positions_per_candidate": 8},
        {"candidate_temperature": None, "rollout_temperature": None},
        {"candidate_temperature": 0.0, "rollout_temperature": 0.0},
        {"rollout_schedule": "constant"},
        {"likely_fraction": 0.5},
        {"likelihood_weight": 0.01},
        {"prefilter": 2},
        {"prefilter": 1, "common_random_numbers": False, "position_policy": "low_confidence"},
    ],
    ids=str,
)
def test_every_option_fills_the_answer_under_every_schedule(settings: dict[str, Any]) -> None:
    for schedule in ("block", "threshold", "origin", "quota"):
        decoding = SHORT.model_copy(
            update={"schedule": schedule, "steps": 6 if schedule in ("origin", "quota") else None}
        )
        for generation in generated(decoding, **settings):
            assert BACKBONE.mask_id not in generation.token_ids


def test_units_are_finished_in_order() -> None:
    """Under schedules with blocks a unit starts when the one before it is complete, whatever the block length."""
    from wmbench_denmark.candidates import active_units

    from wmbench.runtime.loop import decode, make_engine

    scheme = DenMark(DenMarkConfig(**SMALL), SchemeContext(BACKBONE.codec, toy_key("order"), lambda name: ToyEncoder()))
    for block_length in (3, 5, 8, None):
        decoding = SHORT.model_copy(update={"block_length": block_length})

        def watch(step: Any) -> Any:
            for unit in active_units(step, DenMarkConfig(**SMALL)):
                assert unit.first <= step.rows[unit.row].masked[0] < unit.end
            return scheme.decode_step(step)

        list(decode(toy_samples(2), make_engine(BACKBONE, decoding), decoding, watch))


@pytest.mark.parametrize("policy", ["random", "low_confidence"])
def test_candidates_stay_in_the_block_when_asked(policy: str) -> None:
    from wmbench_denmark.candidates import active_units, draw_candidates

    from wmbench.runtime.loop import decode, make_engine

    config = DenMarkConfig(**{**SMALL, "unit_size": 6, "position_scope": "block", "position_policy": policy})
    decoding = SHORT.model_copy(update={"block_length": 3})
    scheme = DenMark(config, SchemeContext(BACKBONE.codec, toy_key("scope"), lambda name: ToyEncoder()))

    def watch(step: Any) -> Any:
        for found in draw_candidates(step, active_units(step, config), config):
            assert np.isin(found.columns, step.plans[found.unit.row].scope).all()
        return scheme.decode_step(step)

    list(decode(toy_samples(2), make_engine(BACKBONE, decoding), decoding, watch))


class EosOnly(TinyBackbone):
    """Writes nothing but the end of text."""

    def logits(self, states: Any) -> Any:
        logits = super().logits(states)
        logits[:, 0] = 100.0
        return logits


def test_wordless_units_are_written_and_tied_candidates_do_not_matter() -> None:
    context = SchemeContext(BACKBONE.codec, toy_key("eos"), lambda name: ToyEncoder())
    scheme = DenMark(DenMarkConfig(**SMALL), context)
    for generation in run_scheme(scheme, EosOnly(TinyConfig(layers=1)), toy_samples(2), SHORT):
        assert set(generation.token_ids) == {0}
        assert generation.text == ""


def test_the_weight_trades_score_for_likelihood() -> None:
    """Of the same candidates: the best score without a weight, the likeliest under a huge one, else between them."""
    from wmbench_denmark.decode import Decoder
    from wmbench_denmark.rollouts import scores_of

    from wmbench.runtime.loop import decode, make_engine

    weights = (0.0, 0.02, 1e6)
    configs = [DenMarkConfig(**SMALL, likelihood_weight=weight) for weight in weights]
    deciders = [Decoder(config, ToyEncoder(), BACKBONE.codec, toy_key("weight")) for config in configs]
    chosen: list[list[tuple[float, float]]] = []

    def watch(step: Any) -> Any:
        candidates, _ = deciders[0].evaluate(step)
        scores = scores_of(step, candidates, deciders[0].scorer, configs[0])
        best = [decider.evaluate(step)[1] for decider in deciders]
        for unit, (found, score) in enumerate(zip(candidates, scores, strict=True)):
            chosen.append([(score[pick[unit]], found.log_probability[pick[unit]]) for pick in best])
            assert chosen[-1][0][0] == score.max()
            assert chosen[-1][2][1] == found.log_probability.max()
        return deciders[1].decide(step)

    list(decode(toy_samples(3), make_engine(BACKBONE, SHORT), SHORT, watch))
    means = np.array(chosen).mean(axis=0)  # [weights, (score, log-probability)]
    assert (np.diff(means[:, 0]) < 0).all()
    assert (np.diff(means[:, 1]) > 0).all()


def test_prefilter_and_fraction_save_forwards() -> None:
    full, filtered, fraction = (
        sum(g.cost.forward_rows for g in generated(**settings))
        for settings in ({}, {"prefilter": 1}, {"likely_fraction": 0.5})
    )
    assert filtered < fraction < full


def test_the_prefilter_weighs_likelihood_as_the_choice_does() -> None:
    """Where likelihood decides alone, one candidate looked at is as good as all."""
    likeliest = generated(likelihood_weight=1e6)
    assert tokens(generated(likelihood_weight=1e6, prefilter=1)) == tokens(likeliest) != tokens(generated(prefilter=1))


def test_forwards_per_token_at_the_papers_settings() -> None:
    """K = 16, m = 25: the plain loop forwards 17 rows per token, the authors' organisation 31 to 50."""
    decoding = Decoding(max_new_tokens=50, block_length=25)
    paper, fast = (
        generated(decoding, samples=2, unit_size=25, candidates=16, preset=preset) for preset in ("paper", "fast")
    )
    # 24 steps of a unit leave masks, so 16 * 24 + 1 rows per 25 tokens if no candidate is drawn twice.
    assert all(g.cost.forward_rows / 50 <= (16 * 24 + 1) / 25 == 15.4 for g in paper)
    assert all(g.cost.forward_rows / 50 <= (16 * 6 + 1) / 25 == 3.88 for g in fast)
    assert all(g.cost.steps == 50 for g in paper)
    assert all(g.cost.steps == 14 for g in fast)
