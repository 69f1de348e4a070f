"""Two runs against each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.report.made_up import ATTACKS, PROMPTS, write_runs
from wmbench.bench.jsonl import JsonlFile
from wmbench.cli import main
from wmbench.errors import ConfigError
from wmbench.report.compare import Comparison, Difference, compare
from wmbench.report.folders import RunFolder, find_runs


def difference(found: Comparison, attack: str, metric: str) -> Difference:
    return next(item for item in found.differences if (item.attack, item.metric) == (attack, metric))


@pytest.fixture(scope="module")
def strong_and_weak(runs: Path) -> list[RunFolder]:
    return find_runs(sorted(runs.glob("d[el][nm]*")))  # denmark, dlm-kgw


@pytest.fixture(scope="module")
def found(strong_and_weak: list[RunFolder]) -> Comparison:
    return compare(*strong_and_weak)


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmbench.report.compare._RESAMPLES", 100)


def test_the_stronger_run_leads_clearly(found: Comparison) -> None:
    assert found.flags == []
    assert len(found.differences) == len(ATTACKS) * 7
    lead = difference(found, "lab-expand", "tpr 0.01 threshold")
    assert lead.n == PROMPTS
    assert lead.first is not None
    assert lead.second is not None
    assert lead.difference is not None
    assert lead.difference.estimate == pytest.approx(lead.first - lead.second)
    assert lead.verdict == "first is better"
    assert lead.difference.n == (PROMPTS, 1000)  # prompts and null texts, both in pairs


@pytest.mark.usefixtures("few_resamples")
def test_the_order_turns_the_sign(strong_and_weak: list[RunFolder]) -> None:
    one_way, other_way = (
        difference(compare(*pair), "lab-expand", "tpr 0.01 threshold")
        for pair in (strong_and_weak, strong_and_weak[::-1])
    )
    assert one_way.difference is not None
    assert other_way.difference is not None
    assert other_way.difference.low == pytest.approx(-one_way.difference.high)
    assert other_way.verdict == "second is better"


def test_the_figures_are_those_of_the_runs(found: Comparison, strong_and_weak: list[RunFolder]) -> None:
    cell = strong_and_weak[0].metrics["cells"][1]
    assert difference(found, "lab-rewrite", "auc").first == cell["auc"]["estimate"]
    assert difference(found, "lab-rewrite", "tpr 0.05 split").first == cell["tpr"]["0.05"]["split"]["estimate"]
    assert difference(found, "lab-rewrite", "tpr 0.05 threshold").first == cell["tpr"]["0.05"]["threshold"]["estimate"]


@pytest.mark.usefixtures("few_resamples")
def test_pairing_makes_a_run_equal_to_itself(runs: Path, tmp_path: Path) -> None:
    import shutil

    first = next(runs.glob("umr*"))
    second = tmp_path / first.name
    shutil.copytree(first, second)
    for item in compare(RunFolder(first), RunFolder(second)).differences:
        assert item.difference is not None
        assert (item.difference.low, item.difference.high) == (0.0, 0.0)  # unpaired, the interval would be wide


@pytest.mark.usefixtures("few_resamples")
def test_only_shared_prompts_count(runs: Path, tmp_path: Path) -> None:
    import shutil

    first = next(runs.glob("umr*"))
    second = tmp_path / first.name
    shutil.copytree(first, second)
    prompts = JsonlFile(second / "prompts.jsonl")
    records = prompts.read()
    prompts.rewrite(
        [{**record, "prompt": f"{record['prompt']}!"} if n < 20 else record for n, record in enumerate(records)]
    )
    assert {item.n for item in compare(RunFolder(first), RunFolder(second)).differences} == {PROMPTS - 20}


@pytest.mark.usefixtures("few_resamples")
def test_different_null_sets_are_refused_or_flagged(
    strong_and_weak: list[RunFolder], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, other = write_runs(tmp_path, {"dlm-kgw": 4.0}, calibration=2700)
    first = strong_and_weak[0]
    with pytest.raises(ConfigError, match="different null sets"):
        compare(first, RunFolder(other))
    assert main(["compare", str(first.path), str(other)]) == 2
    assert "--different-nulls" in capsys.readouterr().err
    assert main(["compare", str(first.path), str(other), "--different-nulls"]) == 0
    shown = capsys.readouterr()
    assert "different null sets" in shown.err
    assert "A is better" in shown.out
    assert main(["compare", str(first.path), str(other), "--different-nulls", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["flags"][0].startswith("different null sets")
    assert found["differences"][0]["difference"]["n"] == [PROMPTS, 1000, 1000]  # null texts resampled apart


def test_two_runs_are_compared_not_one(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(next(runs.glob("umr*")))
    assert main(["compare", run, run]) == 2
    assert "two runs" in capsys.readouterr().err
