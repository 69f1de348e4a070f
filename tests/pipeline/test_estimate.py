"""What runs will cost: timed where a step is short, counted where it is long; once for runs that differ in prompts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pipeline.helpers import prepared
from wmbench.bench import estimate
from wmbench.bench.estimate import duration, estimates, total_minutes


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
    (found,) = estimates(prepared(tmp_path, schemes=["dgmark"], attacks=[]))  # it looks ahead: several forwards a step
    assert found.basis == "counted"
    assert found.forwards > 2 * 4 * 24
    assert found.minutes > 0
    assert "upper bound" in str(found)


def test_what_is_finished_takes_no_time(tmp_path: Path) -> None:
    from wmbench.bench.pipeline import execute

    runs = prepared(tmp_path, attacks=[])
    assert "no time decoding" not in total_minutes(runs)
    execute(runs[0])
    assert total_minutes(runs).startswith("about no time on this machine (no time decoding, no time features;")


def test_durations_are_said_in_their_unit() -> None:
    said = [duration(minutes) for minutes in (0.05, 1.1, 7.4, 150)]
    assert said == ["3 seconds", "a minute", "7 minutes", "2.5 hours"]
