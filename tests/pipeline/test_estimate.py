"""What runs will cost: timed where a step is short, counted where it is long; once for runs that differ in prompts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.pipeline.helpers import PLUGIN, SMALL, host, prepared
from wmbench.bench import attack_estimate, estimate
from wmbench.bench.attack_estimate import attack_estimates
from wmbench.bench.build import Builder
from wmbench.bench.counting import count_cost
from wmbench.bench.estimate import _Progress, _whole_batch, attack_sentence, duration, estimates, total_minutes
from wmbench.bench.plan import resolve_runs
from wmbench.cli.app import run_cli
from wmbench.config import load_config
from wmbench.errors import ConfigError
from wmbench.runtime.backbone import Attention


def test_a_short_step_is_timed_and_runs_of_one_kind_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "prompts.jsonl"
    other.write_text('{"prompt": "w5 w6"}\n{"prompt": "w7"}\n')
    runs = prepared(tmp_path / "runs", schemes=["none"], datasets=["toy", f"jsonl:{other}"], attacks=[])
    measured, original = [], estimate._answer_cost
    monkeypatch.setattr(estimate, "_answer_cost", lambda *given: measured.append(given) or original(*given))
    toy, two = estimates(runs)
    assert len(measured) == 1
    assert (toy.basis, toy.samples, round(toy.forwards)) == ("timed", 4, 4 * 24)  # one forward per token
    assert (two.samples, round(two.forwards)) == (2, 2 * 24)
    assert not (tmp_path / "runs").exists()


def test_a_step_that_takes_too_long_is_cut_off_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "_SECONDS", 0.0)
    monkeypatch.setattr(estimate, "_LEAST_SECONDS", 0.0)
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    runs = prepared(tmp_path, schemes=["dgmark"], attacks=[])  # it looks ahead: several forwards a step
    (found,), (again,) = estimates(runs), estimates(runs)
    assert found.forwards == again.forwards  # the stand-in's key never changes
    assert found.basis == "counted"
    assert found.forwards > 2 * 4 * 24
    assert found.minutes > 0
    assert "upper bound" in str(found)


def test_the_stand_in_has_room_for_answers_of_any_length(tmp_path: Path) -> None:
    options = {"schemes": ["none"], "attacks": [], "decoding": {"max_new_tokens": 8000, "block_length": 25}}
    plan = resolve_runs(load_config(options={**SMALL, **options, "output": str(tmp_path)}), host())[0]
    assert count_cost(plan, Attention(25), 0).forwards == pytest.approx(1)


def test_what_is_finished_takes_no_time(tmp_path: Path) -> None:
    from wmbench.bench.pipeline import execute

    runs = prepared(tmp_path, attacks=[])
    assert "no time decoding" not in total_minutes(runs)[0]
    execute(runs[0])
    assert total_minutes(runs) == [
        "about no time on this machine (no time decoding, no time features; controls come on top)",
        "attacks: nothing left to do",
    ]


def test_a_dry_run_ends_in_a_total(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    command = ["run", "--plugin", str(PLUGIN), "--scheme", "none", "--scheme", "green", "--backbone", "tiny"]
    command += ["--dataset", "toy", "--no-attacks", "--samples", "2", "--nulls", "salad", "--dry-run"]
    command += ["-D", "max_new_tokens=24", "--output", str(tmp_path / "runs")]
    assert run_cli(command) == 0
    total = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("all 2 runs"))
    assert re.search(r"about .+ on this machine \(.+ decoding, .+ features; controls come on top\)", total)
    assert not (tmp_path / "runs").exists()
    alone = command.copy()
    del alone[3:5]  # --scheme none
    assert run_cli(alone) == 0
    assert "the run, what is left to do: about" in capsys.readouterr().out

    def absent(*_: object) -> float:
        raise ConfigError("the null texts are not there")

    monkeypatch.setattr(estimate, "_feature_minutes", absent)
    assert run_cli(command) == 0
    assert "no estimate of the whole: the null texts are not there" in capsys.readouterr().err


def test_what_is_known_already_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = prepared(tmp_path, attacks=[])
    costs, attacked = estimates(runs), attack_estimates(runs)
    monkeypatch.setattr(estimate, "estimates", None)
    monkeypatch.setattr(estimate, "attack_estimates", None)
    assert "decoding" in total_minutes(runs, 1, costs, attacked)[0]


def test_too_many_samples_are_refused_and_repeated_prompts_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="samples"):
        load_config(options={**SMALL, "samples": 100_000_000})
    said: list[str] = []
    config = load_config(options={**SMALL, "schemes": ["none", "green"], "datasets": ["finance"], "samples": 125})
    asked = Builder(host(), said.append)
    for plan in resolve_runs(config, host()):
        assert len(asked.prompts(plan)) == 125
    assert said == ["finance has 120 different prompts: 125 samples repeat them, each time with other randomness"]


def test_a_data_set_of_fewer_prompts_than_were_asked_for_says_so(tmp_path: Path) -> None:
    two = tmp_path / "two.jsonl"
    two.write_text('{"prompt": "w5 w6"}\n{"prompt": "w7"}\n')
    said: list[str] = []
    for samples, messages in ((None, []), (2, []), (30, ["jsonl-two has 2 prompts, 30 were asked for"])):
        options = {"schemes": ["none"], "backbone": "tiny", "datasets": [f"jsonl:{two}"], "samples": samples}
        config = load_config(options={name: value for name, value in options.items() if value is not None})
        assert len(Builder(host(), said.append).prompts(resolve_runs(config, host())[0])) == 2
        assert said == messages


def test_attacks_are_tried_counted_as_free_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    attacks = ["identity", "remask", "nonuniform-halves", "llm-rewrite"]
    runs = prepared(tmp_path / "runs", schemes=["none", "green"], attacks=attacks, attacked_nulls=10)
    tried, original = [], attack_estimate._text_cost
    monkeypatch.setattr(
        attack_estimate,
        "_text_cost",
        lambda run, attack, left: tried.append(attack.label) or original(run, attack, left),
    )
    clean, marked = attack_estimates(runs)
    assert tried == ["remask", "nonuniform-halves"]  # once for both runs
    assert clean.tried == marked.tried == ("remask", "nonuniform-halves")
    assert (clean.free, clean.unknown) == (1, ("llm-rewrite",))
    assert (clean.texts, marked.texts) == (2 * 4, 2 * (4 + 10))  # null texts once, by a run that has a detector
    assert 0 < clean.minutes < marked.minutes
    assert not clean.is_at_least
    lines = total_minutes(runs)
    assert "attacks; controls come on top" in lines[0]
    assert lines[1].startswith("attacks: about ")
    assert "not estimated: llm-rewrite (another model, or an endpoint)" in lines[1]
    assert not (tmp_path / "runs").exists()


def test_an_attack_that_takes_too_long_is_cut_off_and_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attack_estimate, "_SECONDS", 0.0)
    monkeypatch.setattr(attack_estimate, "_LEAST_SECONDS", 0.0)
    (found,) = attack_estimates(prepared(tmp_path, attacks=["remask"]))
    assert found.is_at_least
    assert attack_sentence(found).startswith("more than ")


def test_another_model_is_not_loaded_for_an_estimate(tmp_path: Path) -> None:
    unknown = []
    for name in ("", "tiny-block"):
        runs = prepared(tmp_path, attacks=[{"name": "remask", "params": {"backbone": name}}])
        unknown.append(len(attack_estimates(runs)[0].unknown))
    assert unknown == [0, 1]


def test_attacked_texts_are_not_attacked_again(tmp_path: Path) -> None:
    from wmbench.bench.pipeline import execute

    (run,) = prepared(tmp_path, attacks=["remask"])
    assert attack_estimates([run])[0].texts == 4
    execute(run)
    assert attack_estimates([run])[0].texts == 0


def test_durations_are_said_in_their_unit() -> None:
    said = [duration(minutes) for minutes in (0.05, 1.1, 7.4, 150)]
    assert said == ["3 seconds", "a minute", "7 minutes", "2.5 hours"]


def test_the_first_step_is_not_multiplied() -> None:
    # Two answers of ten steps: the first step takes 100 s, every further one 2 s.
    first, fourth = _Progress(0.2, 10, 100.0), _Progress(0.8, 16, 106.0)
    assert _whole_batch(first, fourth, 2) == pytest.approx((28.0, 118.0))
    assert _whole_batch(first, first, 2) == pytest.approx((100.0, 1000.0))  # nothing else is known
