"""`wmbench tune` on the tiny backbone: every point is a run, the path is reported, the same command resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.pipeline.helpers import KEY, PLUGIN
from wmbench.bench.tune import quality_of, tpr_of
from wmbench.cli.app import run_cli


@pytest.fixture(autouse=True)
def a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMBENCH_KEY", KEY)


def tune(capsys: pytest.CaptureFixture[str], output: Path, *options: str) -> tuple[int, str, str]:
    basics = [] if "--scheme" in options else ["--scheme", "green"]
    basics += ["--backbone", "tiny", "--dataset", "toy", "--samples", "8"]
    basics += [] if "--nulls" in options else ["--nulls", "salad"]
    sizes = ["--calibration-texts", "120", "--heldout-texts", "60", "-D", "max_new_tokens=24", "-F", "min_tokens=1"]
    code = run_cli(["tune", "--plugin", str(PLUGIN), *basics, *sizes, "--output", str(output), *options])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_rate_is_matched_and_the_path_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        "--match",
        "tpr",
        "--target",
        "0.5",
        "--tolerance",
        "0.2",
        "--range",
        "0",
        "8",
        "--fpr",
        "0.05",
        "--json",
    ]
    code, out, _ = tune(capsys, tmp_path, *options)
    result = json.loads(out)
    assert code == 0
    assert result["matched"]
    assert [point["at"] for point in result["path"][:2]] == [0.0, 8.0]
    assert result["path"][0]["tpr"]["estimate"] < result["path"][1]["tpr"]["estimate"] == 1.0
    best = next(point for point in result["path"] if point["at"] == result["best"])
    assert best["value"] == best["tpr"]["estimate"] == pytest.approx(0.5, abs=0.2)
    assert result["option"] == f"-S green.delta={best['at']:g}"
    assert all(Path(point["folder"], "metrics.json").exists() for point in result["path"])
    assert json.loads(Path(result["file"]).read_text())["path"] == result["path"]
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/samples.jsonl")}
    again = json.loads(tune(capsys, tmp_path, *options)[1])
    assert again == result
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/samples.jsonl")} == before


def test_a_target_out_of_reach_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--match", "tpr", "--target", "1", "--tolerance", "0", "--range", "0", "0.1", "--fpr", "0.05"]
    code, out, _ = tune(capsys, tmp_path, *options)
    assert code == 1
    assert "not reached" in out


def test_misspelt_parameters_are_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = tune(capsys, tmp_path, "--parameter", "dleta")
    assert code == 2
    assert "did you mean 'delta'" in err
    assert not list(tmp_path.iterdir())


def test_only_whole_values_of_a_whole_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wholes = ["--scheme", "tuned", "--parameter", "view_count", "--range", "1.5", "4"]
    code, _, err = tune(capsys, tmp_path, *wholes)
    assert (code, "takes whole numbers" in err) == (2, True)
    assert not list(tmp_path.iterdir())


def test_a_usual_range_that_leaves_what_is_permitted_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four times 0.25 is no probability below 1."""
    code, _, err = tune(capsys, tmp_path, "--scheme", "dlm_kgw", "--parameter", "gamma", "--match", "tpr")
    assert code == 2
    assert "gamma = 1.0" in err
    assert "--range LOW HIGH" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("scheme", "parameter", "borders", "told"),
    [
        ("dlm_kgw", "gamma", ("0.1", "1.5"), "gamma = 1.5"),
        ("dlm_kgw", "gamma", ("-1", "0.5"), "gamma = -1.0"),
        ("green", "delta", ("0", "inf"), "not a number to search at"),
        ("green", "delta", ("nan", "4"), "not a number to search at"),
    ],
)
def test_both_borders_are_planned_before_one_is_measured(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    scheme: str,
    parameter: str,
    borders: tuple[str, str],
    told: str,
) -> None:
    code, _, err = tune(capsys, tmp_path, "--scheme", scheme, "--parameter", parameter, "--range", *borders)
    assert (code, told in err) == (2, True), err
    assert not list(tmp_path.iterdir())


def test_too_few_null_texts_show_before_anything_is_decoded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = tune(capsys, tmp_path, "--match", "tpr", "--nulls", "salad:60")
    assert (code, "too few texts" in err) == (2, True), err
    assert not list(tmp_path.rglob("samples.jsonl"))


def test_a_judge_that_cannot_judge_shows_before_anything_is_decoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The embedded judge knows the language of the lab; tiny's words are none of it."""
    code, _, err = tune(capsys, tmp_path, "--match", "quality")
    assert (code, "knows the language of the lab only" in err, "--match tpr" in err) == (2, True, True), err
    assert not list(tmp_path.rglob("samples.jsonl"))


def test_a_scheme_without_a_number_cannot_be_tuned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = tune(capsys, tmp_path, "--scheme", "none")
    assert (code, "nothing to tune" in err) == (2, True), err


def test_attacks_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = tune(capsys, tmp_path, "--attack", "identity")
    assert code == 2
    assert "unattacked" in err


class WordJudge:
    """Log-perplexity under a unigram law in which half of the words (the even ones) are rare."""

    def log_perplexity(self, prompt: Any, texts: Any) -> npt.NDArray[np.float64]:
        return np.array([np.mean([3.0 if int(word[1:]) % 2 else 5.0 for word in text.split()]) for text in texts])


def test_quality_is_matched_under_a_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scheme `fixed` favours the even words, which this judge finds surprising: more so the larger delta is."""
    quality = pytest.importorskip("wmbench.bench.stages.quality")
    judge = quality.FoundJudge("words", "1", WordJudge)
    monkeypatch.setattr(quality, "find_judge", lambda name, codec: judge)
    options = ["--match", "quality", "--target", "0.4", "--tolerance", "0.15", "--range", "0", "6", "--json"]
    basics = ["--scheme", "fixed", "--backbone", "tiny", "--dataset", "toy", "--samples", "8", "--nulls", "salad"]
    sizes = ["--calibration-texts", "120", "--heldout-texts", "60", "-D", "max_new_tokens=24", "-F", "min_tokens=1"]
    code = run_cli(["tune", "--plugin", str(PLUGIN), *basics, *sizes, "--output", str(tmp_path), *options])
    result = json.loads(capsys.readouterr().out)
    assert code == 0
    assert result["path"][0]["quality"]["estimate"] == pytest.approx(0.0, abs=1e-9)  # delta 0 writes the clean text
    assert result["path"][-1]["value"] == pytest.approx(0.4, abs=0.15)


def test_figures_are_read_off_metrics() -> None:
    rate = {"estimate": 0.5, "low": 0.1, "high": 0.9}
    cell = {"n": 4, "tpr": {"0.01": {"threshold": rate}}}
    metrics: dict[str, Any] = {"cells": [cell], "quality": {"delta_log_perplexity": rate}}
    assert tpr_of(metrics, 0.01) == quality_of(metrics) == rate
    assert tpr_of({"cells": [{"n": 0}]}, 0.01) is None
    assert quality_of({}) is None
