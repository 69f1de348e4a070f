"""The experiments of `wmbench analyse`: step advantages and the noise of comparisons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from wmbench_denmark.advantage import Span, StepAdvantage, summary
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.noise import WAYS, Noise, NoiseMeter
from wmbench_denmark.noise import summary as noise_summary
from wmbench_denmark.scheme import DenMark

from wmbench.cli.app import run_cli
from wmbench.errors import ConfigError
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.testing import ToyEncoder, toy_key, toy_samples
from wmbench.types import SchemeContext

BACKBONE = TinyBackbone(TinyConfig(layers=1, attention="block", attention_block=10))
DOCUMENT = Decoding(max_new_tokens=30, block_length=10)


def make(**settings: Any) -> tuple[DenMarkConfig, DenMark]:
    config = DenMarkConfig(**{"unit_size": 10, "candidates": 4, "rollouts": 2, **settings})
    context = SchemeContext(BACKBONE.codec, toy_key("analysis"), lambda name: ToyEncoder())
    return config, DenMark(config, context)


def measured(
    decoding: Decoding, prompts: int, scope: Any = "document", settings: Any = None, **options: Any
) -> list[Span]:
    config, scheme = make(**(settings or {}))
    meter = StepAdvantage(scheme.decoder, config, decoding, scope, **options)
    return meter.finish(list(decode(toy_samples(prompts), make_engine(BACKBONE, decoding), decoding, meter.decide)))


def test_advantages_add_up_to_the_gain_of_whole_answers() -> None:
    """N = 30, m = 10, K = 4: the sum of the advantages and the gain are estimated by different continuations."""
    spans = measured(DOCUMENT, 5, settings={"rollouts": 1})
    assert [len(span.advantages) for span in spans] == [30] * 5
    found = summary(spans)
    identity = found["identity"]
    gain = identity["score_under_pi"] - identity["score_under_pi0"]
    assert identity["gap"] == pytest.approx(identity["sum_of_advantages"] - gain)
    assert abs(identity["z"]) < 3.5
    assert gain > 0.05, "the mark is there"
    assert found["low"][-1] < found["mean"][-1] < found["high"][-1]
    assert found["low"][-1] > 0, "so is what the steps add"


def test_units_are_measured_by_themselves_and_only_as_many_as_asked_for() -> None:
    spans = measured(DOCUMENT, 2, "unit", units=2, continuations=2)
    assert [(span.sample, span.units) for span in spans] == [
        (f"sample-{i}", range(b, b + 1)) for i in range(2) for b in range(2)
    ]
    assert all(len(span.advantages) == 10 for span in spans)
    assert all(np.isfinite([span.marked, span.reference]).all() for span in spans)


@pytest.mark.parametrize("schedule", ["block", "origin"])
def test_the_collapse_control_is_exactly_zero(schedule: str) -> None:
    settings = {"schedule": schedule, "max_new_tokens": 12, "steps": 6 if schedule == "origin" else None}
    spans = measured(DOCUMENT.model_copy(update=settings), 2, collapse=True)
    values = [value for span in spans for value in span.advantages]
    assert len(values) >= 4
    assert set(values) == {0.0}


def test_scopes_that_cannot_be_measured_are_refused() -> None:
    config, scheme = make()
    with pytest.raises(ConfigError, match="unit after unit"):
        StepAdvantage(scheme.decoder, config, Decoding(schedule="origin"), "unit")
    with pytest.raises(ConfigError, match="whole answers"):
        StepAdvantage(scheme.decoder, config, Decoding(eos="stop"))


# --- noise ---------------------------------------------------------------------------------------------------------


def test_common_random_numbers_make_differences_less_noisy() -> None:
    config, scheme = make()
    meter = NoiseMeter(scheme.decoder, config, rollouts=32, every=3)
    marked = list(decode(toy_samples(2), make_engine(BACKBONE, DOCUMENT), DOCUMENT, meter.decide))
    plain = list(decode(toy_samples(2), make_engine(BACKBONE, DOCUMENT), DOCUMENT, scheme.decode_step))
    assert [g.token_ids for g in marked] == [g.token_ids for g in plain], "looking does not change the texts"
    ways = noise_summary(meter.found)["ways"]
    assert set(ways) == set(WAYS)
    assert ways["independent"]["ratio"] == 1.0
    assert ways["common"]["ratio"] < 0.8
    assert all(ways[way]["ratio"] < 1 for way in WAYS[1:])


@pytest.mark.parametrize("way", [way for way in WAYS if way != "published"])
def test_every_way_draws_from_the_distribution(way: str) -> None:
    config, scheme = make(rollout_temperature=1.0)
    meter = NoiseMeter(scheme.decoder, config)
    logits = torch.tensor([[0.5, -1.0, 1.5, -torch.inf, 0.0]])
    uniforms = (np.arange(4000)[None] + 0.5) / 4000
    step: Any = type("AnyStep", (), {"decoding": Decoding()})
    tokens = meter._draw(way, logits, uniforms, torch.tensor([[4, 3, 2, 1, 0]]), step)
    shares = np.bincount(tokens[0], minlength=5) / 4000
    np.testing.assert_allclose(shares, logits.softmax(-1)[0].numpy(), atol=1e-3)


def test_noise_is_averaged_over_prompts() -> None:
    variance = dict.fromkeys(WAYS, 1.0)
    found = [Noise("a", 3, {**variance, "common": 0.25}, 0.1), Noise("b", 3, {**variance, "common": 0.75}, 0.1)]
    common = noise_summary(found)["ways"]["common"]
    assert common["ratio"] == 0.5
    assert (common["low"], common["high"]) == (0.25, 0.75)


# --- commands ------------------------------------------------------------------------------------------------------

TINY = ["--backbone", "tiny-block", "--dataset", "toy", "-D", "max_new_tokens=12", "-S", "unit_size=6"]
TINY += ["-S", "candidates=3", "-S", "rollouts=1"]


def test_commands_write_their_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    assert run_cli(["analyse", "denmark-advantage", "--prompts", "2", "--units", "1", *TINY]) == 0
    assert run_cli(["analyse", "denmark-noise", "--prompts", "1", "--rollouts", "4", "--output", "noise", *TINY]) == 0
    shown, progress = capsys.readouterr()
    assert "denmark-noise on tiny-block: 12/12 tokens" in progress
    assert "all exactly 0" in shown
    assert "of independent" in shown
    advantage = json.loads((tmp_path / "runs/analyses/denmark-advantage/result.json").read_text())
    assert advantage["scheme"]["settings"]["candidates"] == 3
    assert advantage["key_id"]
    assert len(advantage["result"]["mean"]) == 6
    assert json.loads((tmp_path / "noise/result.json").read_text())["result"]["ways"]["common"]["ratio"] >= 0
    assert run_cli(["analyse", "denmark-advantag"]) == 2
    assert "denmark-advantage" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_told_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    (tmp_path / "taken").write_text("a file")
    command = ["analyse", "denmark-noise", "--prompts", "1", "--output", str(tmp_path / "taken"), *TINY]
    assert run_cli(command) == 4
    shown = capsys.readouterr()
    assert "a file stands where a folder is needed" in shown.err
    assert "tokens" not in shown.err
    assert not shown.out


@pytest.mark.parametrize("several", ["datasets: [toy, finance]", "backbones: [tiny, tiny-block]"])
def test_a_file_for_several_runs_is_no_experiment(
    several: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    (tmp_path / "file.yaml").write_text(several)
    command = ["analyse", "denmark-noise", "--config", str(tmp_path / "file.yaml"), "--output", str(tmp_path / "out")]
    assert run_cli(command) == 2
    assert "one model and one set of prompts" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
