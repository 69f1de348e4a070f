"""`wmbench compare` on made-up runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.report.made_up import ATTACKS, PROMPTS, write_runs
from wmbench.bench.comparison import compare_runs
from wmbench.bench.jsonl import JsonlFile
from wmbench.cli import main
from wmbench.errors import ConfigError


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmbench.bench.comparison._RESAMPLES", 100)


@pytest.fixture
def strong(runs: Path) -> Path:
    return next(runs.glob("denmark_*"))


@pytest.fixture
def weak(runs: Path) -> Path:
    return next(runs.glob("dlm-kgw_*"))


def cell(found: dict[str, Any], attack: str) -> dict[str, Any]:
    return next(cell for cell in found["cells"] if cell["attack"] == attack)


def test_the_stronger_run_leads_clearly(strong: Path, weak: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(strong), str(weak), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["flags"] == []
    assert [cell["attack"] for cell in found["cells"]] == list(ATTACKS)
    lead = cell(found, "lab-expand")["tpr"]["0.01"]["threshold"]
    assert lead["low"] > 0
    assert lead["n"] == [PROMPTS, 1000]  # prompts and null texts, both in pairs
    back = cell(compare_runs(weak, strong), "lab-expand")["tpr"]["0.01"]["threshold"]
    assert back["low"] == pytest.approx(-lead["high"])
    metrics = json.loads((strong / "metrics.json").read_bytes())["cells"][1]
    rewrite = cell(found, "lab-rewrite")
    assert rewrite["auc"]["first"] == metrics["auc"]["estimate"]
    assert rewrite["tpr"]["0.05"]["split"]["first"] == metrics["tpr"]["0.05"]["split"]["estimate"]
    assert main(["compare", str(strong), str(weak)]) == 0
    assert "A is better" in capsys.readouterr().out


def test_only_the_same_prompts_count(strong: Path, weak: Path, tmp_path: Path) -> None:
    other = tmp_path / weak.name
    shutil.copytree(weak, other)
    prompts = JsonlFile(other / "prompts.jsonl")
    changed = [{**r, "prompt": f"{r['prompt']}!"} if n < 20 else r for n, r in enumerate(prompts.read())]
    prompts.rewrite(changed)
    assert {cell["n"] for cell in compare_runs(strong, other)["cells"]} == {PROMPTS - 20}


def test_a_few_prompts_bear_out_no_verdict(
    strong: Path, weak: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scores of a few texts may all tie at the floor of p: their bootstrap then has no width."""
    other = tmp_path / weak.name
    shutil.copytree(weak, other)
    prompts = JsonlFile(other / "prompts.jsonl")
    known = prompts.read()
    for shared, is_judged in ((10, True), (9, False)):
        prompts.rewrite([{**r, "prompt": f"{r['prompt']}!"} if n >= shared else r for n, r in enumerate(known)])
        assert main(["compare", str(strong), str(other)]) == 0
        shown = capsys.readouterr()
        assert ("is better" in shown.out, "too few prompts" in shown.out) == (is_judged, not is_judged)
        assert ("only 9 shared prompts: with fewer than 10 no verdict is given" in shown.err) == (not is_judged)


def test_different_null_sets_are_refused_or_flagged(
    strong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, other = write_runs(tmp_path, {"dlm-kgw": 4.0}, calibration=2700)
    with pytest.raises(ConfigError, match="different null texts"):
        compare_runs(strong, other)
    assert main(["compare", str(strong), str(other)]) == 2
    refusal = capsys.readouterr().err
    assert "calibration: 5200 and 2700" in refusal
    assert "--different-nulls" in refusal
    assert main(["compare", str(strong), str(other), "--different-nulls"]) == 0
    shown = capsys.readouterr()
    assert "the null sets differ" in shown.err
    assert "A is better" in shown.out
    found = compare_runs(strong, other, any_nulls=True)
    assert found["cells"][0]["auc"]["n"] == [PROMPTS, 1000, 1000]  # null texts resampled apart


def test_a_level_out_of_reach_has_no_difference(
    strong: Path, weak: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blind = tmp_path / weak.name
    shutil.copytree(weak, blind)
    metrics = json.loads((blind / "metrics.json").read_bytes())
    metrics["unresolved"] = {"0.005": {"why": "too few", "hint": "more"}}
    metrics["tied"] = {
        "0.005": {"why": "no threshold", "hint": "more"},
        "0.01": {"why": "no threshold", "hint": "more"},
    }
    (blind / "metrics.json").write_text(json.dumps(metrics))
    found = compare_runs(strong, blind)["cells"][0]["tpr"]
    assert found["0.005"] == {"threshold": None, "split": None}
    assert found["0.01"]["threshold"] is None
    assert found["0.01"]["split"] is not None
    assert main(["compare", str(strong), str(blind)]) == 0
    assert "out of reach" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["[]", "{}", '{"cells": []}'])
def test_damaged_results_are_named(
    strong: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "metrics.json").write_text(content)
    assert main(["compare", str(strong), str(tmp_path)]) == 4
    assert "the results of this run are damaged" in capsys.readouterr().err


def test_other_decoding_filters_and_normalisers_are_flagged(strong: Path, weak: Path, tmp_path: Path) -> None:
    other = tmp_path / weak.name
    shutil.copytree(weak, other)
    run, metrics = (json.loads((other / name).read_text()) for name in ("run.json", "metrics.json"))
    run["spec"]["decoding"]["temperature"] = 1.0
    run["filters"] = {"min_tokens": 10}
    metrics["normalise"] = True
    for name, content in (("run.json", run), ("metrics.json", metrics)):
        (other / name).write_text(json.dumps(content))
    decoding, filters, normaliser = compare_runs(strong, other)["flags"]
    assert decoding == "the decoding settings differ: temperature: 0.5 and 1.0"
    assert "min_tokens: None and 10" in filters
    assert "normalise: False and True" in normaliser


def test_null_texts_whose_ids_look_like_retries_are_all_counted(strong: Path, weak: Path, tmp_path: Path) -> None:
    folders = []
    for run in (strong, weak):
        folders.append(tmp_path / run.name)
        shutil.copytree(run, folders[-1])
        nulls = JsonlFile(folders[-1] / "verdicts" / "heldout-lab.jsonl")
        nulls.rewrite([{**record, "id": f"news~{n}"} for n, record in enumerate(nulls.read())])
    assert compare_runs(*folders)["cells"][0]["n_nulls"] == [1000, 1000]


def test_other_keys_are_flagged(strong: Path, weak: Path, tmp_path: Path) -> None:
    assert compare_runs(strong, weak)["flags"] == []
    other = tmp_path / weak.name
    shutil.copytree(weak, other)
    metrics = json.loads((other / "metrics.json").read_text())
    (other / "metrics.json").write_text(json.dumps({**metrics, "key_id": "ba9876543210"}))
    (flag,) = compare_runs(strong, other)["flags"]
    assert flag.startswith("the keys differ")
