"""Sweeps: grids, what points share, and their results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.helpers import KEY, PLUGIN, SMALL, builder, calls, host
from tests.store.helpers import final_files
from wmbench.bench.jsonl import JsonlFile
from wmbench.bench.sweep import (
    Axis,
    Grid,
    _same,
    flat_rows,
    named_grids,
    plan_sweep,
    prepare_sweep,
    run_sweep,
    sweep_folder,
)
from wmbench.bench.sweep_view import _broken, _wide_enough, charts, table_of_points
from wmbench.bench.workers import WorkerPool
from wmbench.cli.app import run_cli
from wmbench.config import load_config
from wmbench.errors import CalibrationError, ConfigError, UnknownNameError


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMBENCH_KEY", KEY)


def swept(output: Path, axes: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    config = load_config(options={**SMALL, "schemes": ["tuned"], "output": str(output), **options})
    return list(run_sweep(prepare_sweep(plan_sweep(config, Grid.of("test", axes), host()), builder())))


def test_a_grid_has_every_combination_and_joined_settings_move_together() -> None:
    grid = Grid.of("g", {"a,b": [[1, 2], [3, 4]], "decoding.c": [5, [6]]})
    assert grid.points() == [
        {"a": 1, "b": 2, "decoding.c": 5},
        {"a": 1, "b": 2, "decoding.c": [6]},
        {"a": 3, "b": 4, "decoding.c": 5},
        {"a": 3, "b": 4, "decoding.c": [6]},
    ]


@pytest.mark.parametrize(
    ("names", "values", "complaint"),
    [
        ("a", [], "no values"),
        ("a", 3, "no values"),
        ("a,b", [[1, 2], [3]], "does not fit"),
        ("a,b", [1, 2], "does not fit"),
        ("a,,b", [[1, 2, 3]], "name settings"),
        ("a,a", [[1, 2]], "each once"),
    ],
)
def test_bad_axes_are_refused(names: str, values: Any, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        Axis.of(names, values)


def test_bad_points_are_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="swept twice"):
        Grid.of("g", {"a": [1], "a,b": [[1, 2]]})
    for axes in ({"delta": [1.0, "x"]}, {"unknown": [1]}, {"decoding.unknown": [1]}):
        with pytest.raises(ConfigError):
            swept(tmp_path, axes)
    with pytest.raises(ConfigError, match="one scheme"):
        swept(tmp_path, {"delta": [1.0]}, schemes=["tuned", "green"])
    with pytest.raises(ConfigError, match="one scheme"):
        swept(tmp_path, {"decoding.temperature": [0.5]}, schemes=["all"])
    with pytest.raises(ConfigError, match="one backbone"):
        swept(tmp_path, {"delta": [1.0]}, backbone=None, backbones=["tiny", "tiny-block"])
    with pytest.raises(ConfigError, match="is a control"):
        swept(tmp_path, {"decoding.temperature": [0.5]}, schemes=["none"])
    with pytest.raises(UnknownNameError, match="did you mean 'strength'"):
        named_grids(host().schemes["tuned"].info, ["strenght"])
    with pytest.raises(ConfigError, match="brings no sweeps"):
        named_grids(host().schemes["green"].info, ["all"])
    with pytest.raises(CalibrationError, match="can never be reached") as refused:
        swept(tmp_path, {"view_count": [1, 30]}, alpha=0.05)
    assert "at view_count=30; " in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_too_few_null_texts_show_before_anything_is_decoded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too few texts"):
        swept(tmp_path, {"delta": [1.0, 2.0]}, nulls=["salad:60"])
    assert not list(tmp_path.rglob("samples.jsonl"))


def test_points_share_null_features_and_one_control(tmp_path: Path) -> None:
    before = calls()["features"]
    points = swept(tmp_path, {"delta": [0.0, 8.0]})
    made = calls()["features"] - before
    own = 2 * 2 * 4  # two points: the samples and the attacked samples
    clean, nulls, probes = 2 * 4, 150, 8
    assert made <= own + clean + nulls + probes, "features of null texts were computed once"
    folders = [path.name for path in tmp_path.iterdir() if path.name.startswith("none_")]
    assert len(folders) == 1
    assert len({point["folder"] for point in points}) == 2
    weak, strong = (point["metrics"]["cells"][0]["auc"]["estimate"] for point in points)
    assert weak < strong
    assert points[0]["same_tokens"] == 1.0
    assert 0 <= points[1]["same_tokens"] < 1
    assert points[0]["cost"]["rows_per_token"] == pytest.approx(1.0)


def test_workers_measure_the_same_points(tmp_path: Path) -> None:
    """They build every point, and the control beside it, from a configuration of its own."""
    axes = {"delta": [0.0, 8.0]}
    config = load_config(options={**SMALL, "schemes": ["tuned"], "output": str(tmp_path / "shared"), "batch_size": 2})
    with WorkerPool(2, [str(PLUGIN)]) as pool:
        planned = plan_sweep(config, Grid.of("test", axes), host())
        shared = list(run_sweep(prepare_sweep(planned, builder(), executor=pool)))
        assert pool.started
    alone = swept(tmp_path / "alone", axes, batch_size=2)
    for one, other in zip(alone, shared, strict=True):
        assert one["metrics"] == other["metrics"]
        assert final_files(Path(one["folder"])) == final_files(Path(other["folder"]))


def test_tokens_are_compared_answer_by_answer() -> None:
    """With retries and topping up points answer different prompts; those that both answer count."""
    first = {"a": [1, 2, 3, 4], "b": [5, 6, 7, 8], "c": [0, 0, 0, 0]}
    assert _same(first, {"b": [5, 6, 7, 0], "b~1": [1, 1, 1, 1], "c": [0, 0, 0, 0]}) == 7 / 8
    assert _same(first, {"a": [1, 2, 3]}) is None
    assert _same(first, {"d": [1, 2, 3, 4]}) is None


def command_line(output: Path, *more: str, backbone: str = "tiny") -> list[str]:
    command = ["sweep", "--plugin", str(PLUGIN), "--scheme", "tuned", "--backbone", backbone, "--dataset", "toy"]
    command += ["--samples", "4", "--nulls", "salad", "--calibration-texts", "100", "--heldout-texts", "50"]
    return [*command, "-D", "max_new_tokens=24", "--output", str(output), *more]


def test_failures_end_the_command_with_1(tmp_path: Path) -> None:
    command = command_line(tmp_path, "--attack", "moody", "--vary", "delta=[4.0]")
    assert run_cli(command) == 1
    assert run_cli([*command, "--failure-limit", "1"]) == 0


def test_a_sweep_that_fails_leaves_the_others_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = command_line(tmp_path, "--no-attacks", backbone="tiny-block")
    assert run_cli([*command, "--sweep", "guidance", "--sweep", "strength", "--json"]) == 2
    shown, told = capsys.readouterr()
    assert [result["sweep"] for result in json.loads(shown)["sweeps"]] == ["strength"]
    assert "guidance works with full attention only" in told
    assert "sweep guidance is left out, the other sweeps go on" in told
    assert run_cli([*command, "--sweep", "guidance"]) == 2
    assert "left out" not in capsys.readouterr().err


def test_detection_settings_do_not_decode_again(tmp_path: Path) -> None:
    points = swept(tmp_path, {"view_count": [1, 2]}, alpha=0.05)
    assert len({point["folder"] for point in points}) == 1
    assert [point["metrics"]["calibration"]["views"] for point in points] == [1, 2]
    written = (Path(points[0]["folder"]) / "samples.jsonl").stat().st_mtime_ns
    again = swept(tmp_path, {"view_count": [1, 3]}, alpha=0.05)
    assert again[0]["metrics"]["cells"] == points[0]["metrics"]["cells"]
    assert (Path(points[0]["folder"]) / "samples.jsonl").stat().st_mtime_ns == written


def test_the_command_writes_table_and_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = command_line(tmp_path, "--no-attacks")
    assert run_cli([*command, "--sweep", "strength", "--dry-run"]) == 0
    assert "delta=4.0" in capsys.readouterr().out
    assert run_cli([*command, "--sweep", "strength", "--dry-run", "--json"]) == 0
    points = [{"settings": {"delta": delta}, "dataset": "toy"} for delta in (0.0, 4.0)]
    assert json.loads(capsys.readouterr().out) == {"sweeps": [{"sweep": "strength", "points": points}]}
    assert not (tmp_path / "sweeps").exists()
    assert run_cli([*command, "--sweep", "strength"]) == 0
    assert "TPR at 1% FPR" in capsys.readouterr().out
    (folder,) = (tmp_path / "sweeps").iterdir()
    result = json.loads((folder / "sweep.json").read_text())
    assert [point["settings"] for point in result["points"]] == [{"delta": 0.0}, {"delta": 4.0}]
    lines = (folder / "sweep.csv").read_text().splitlines()
    assert len(lines) == 1 + len(list(flat_rows(result))) == 3
    page = (folder / "sweep.html").read_text()
    assert "Content-Security-Policy" in page
    assert "<script" not in page
    assert "Lab figures" in page
    assert page.count("<tr>") == 3
    auc = result["points"][1]["metrics"]["cells"][0]["auc"]
    assert f">{auc['estimate']:.3f} [{auc['low']:.3f}, {auc['high']:.3f}]<" in page
    assert "wmbench sweep --sweep strength --scheme tuned --backbone tiny" in page
    drawn = charts(result)
    assert [chart["data"]["values"][0]["x"] for chart in drawn] == [0.0] * 3, "no judge, no chart of the price"
    assert run_cli([*command]) == 2
    assert run_cli([*command, "--vary", "delta=4"]) == 2
    assert run_cli(["sweep", "--scheme", "all", "--sweep", "strength"]) == 2
    assert "a sweep varies one scheme" in capsys.readouterr().err


def test_the_folder_is_named_by_all_that_determines_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name(**options: Any) -> str:
        grid = Grid.of("test", {"delta": [1.0, 4.0]})
        config = load_config(options={**SMALL, "schemes": ["tuned"], "output": str(tmp_path / "runs"), **options})
        return sweep_folder(grid, prepare_sweep(plan_sweep(config, grid, host()), builder())).name

    (tmp_path / "key").write_text("5b" * 32)
    (tmp_path / "key").chmod(0o600)
    other_key = {"key": f"file:{tmp_path / 'key'}"}
    others: list[dict[str, Any]] = [
        {"attacks": []},
        {"nulls": ["salad:500"]},
        {"heldout_texts": 60},
        {"alpha": 0.05},
        {"filters": {"min_tokens": 3}},
        {"keys": 2},
        {"attacked_nulls": 5},
        {"lengths": [6]},
        {"normalise": True},
        {"top_up": True},
        {"schemes": [{"name": "tuned", "params": {"view_count": 2}}], "alpha": 0.05},
        {"decoding": {"max_new_tokens": 26}},
        other_key,
    ]
    names = [name(), *(name(**other) for other in others)]
    assert len(set(names)) == len(names)
    same: list[dict[str, Any]] = [{"batch_size": 1, "output": str(tmp_path / "elsewhere")}, {"judge": "mini-judge"}]
    assert {name(**more) for more in same} == {names[0]}
    monkeypatch.setenv("WMBENCH_KEY", "5b" * 32)
    assert name() == names[-1]  # the key itself counts, not its place


def test_the_price_of_every_point_is_shown_once(tmp_path: Path) -> None:
    points = swept(tmp_path, {"delta": [0.0, 4.0]})  # unattacked and `identity`
    for number, point in enumerate(points):
        delta = {"estimate": 0.25 * number, "low": -0.5, "high": 1.5}
        point["metrics"]["quality"] = {"judge": "made up", "delta_log_perplexity": delta}
    result = {"axes": [["delta"]], "points": points}
    assert {(row["delta"], row["price"], row["price_low"], row["price_high"]) for row in flat_rows(result)} == {
        ("0.0", 0.0, -0.5, 1.5),
        ("4.0", 0.25, -0.5, 1.5),
    }
    headings, lines = table_of_points(result)
    prices = ["+0.00 [-0.50, +1.50]", "", "+0.25 [-0.50, +1.50]", ""]
    assert [line[headings.index("price, nats")] for line in lines] == prices
    _, areas, price, rows = (chart["data"]["values"] for chart in charts(result))
    assert [(value["x"], value["attack"]) for value in areas] == [
        (delta, attack) for delta in (0.0, 4.0) for attack in ("unattacked", "identity")
    ]
    assert [(value["x"], value["price"], value["price_high"]) for value in price] == [(0.0, 0.0, 1.5), (4.0, 0.25, 1.5)]
    assert [value["x"] for value in rows] == [0.0, 4.0]


def test_headings_break_between_words() -> None:
    assert _broken("candidate_temperature") == "candidate_\ntemperature"
    assert _broken("position_policy") == "position_policy"
    assert _broken("a_remarkably_long_name").replace("\n", "") == "a_remarkably_long_name"


@pytest.mark.parametrize(
    ("low", "high", "domain"),
    [(0.9975, 1.0, [0.95, 1.0]), (0.6, 0.61, [0.58, 0.63]), (0.0, 0.01, [0.0, 0.05]), (0.4, 0.9, [0.4, 0.9])],
)
def test_the_axis_of_a_rate_is_never_narrower_than_a_twentieth(low: float, high: float, domain: list[float]) -> None:
    assert _wide_enough([{"auc_low": low, "auc_high": high}], "auc") == pytest.approx(domain)


def test_charts_are_drawn_without_scripts(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    from wmbench.plots import curve_with_band
    from wmbench.report.still import still_page

    thin = [{"x": 0, "y": 1, "curve": 0}, {"x": 1, "y": 2, "curve": 0}]
    mean = [{"x": 0, "y": 1, "low": 0, "high": 2}, {"x": 1, "y": 2, "low": 1, "high": 3}]
    chart = curve_with_band(thin, mean, "x", "y")
    html, has_charts = still_page(title="a <title>", lead="", backbone="mini", charts=[chart])
    assert has_charts
    assert "&lt;title&gt;" in html
    assert "<svg" in html
    assert "<script" not in html


def test_runs_are_shown_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = load_config(options={**SMALL, "schemes": ["none", "green"], "output": str(tmp_path), "attacks": []})
    from wmbench.bench.pipeline import execute, prepare_all
    from wmbench.bench.plan import resolve_runs

    folders = [execute(run).folder for run in prepare_all(resolve_runs(config, host()), builder())]
    assert run_cli(["analyse", "side-by-side", *folders, "--prompts", "2", "--markdown"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("### ") == 2
    assert shown.count("**none.** w") == shown.count("**green.** w") == 2
    samples = JsonlFile(Path(folders[1]) / "samples.jsonl")
    samples.rewrite([{**record, "prompt": "something else"} for record in samples.read()])
    assert run_cli(["analyse", "side-by-side", *folders]) == 2  # equal ids are not enough
    assert "no prompt in common" in capsys.readouterr().err
    assert run_cli(["analyse", "side-by-side", str(tmp_path)]) == 2
    assert "not a run folder" in capsys.readouterr().err
