"""Chains, grids and collective names: how attacks are chosen, and how a run carries them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.helpers import info, toy_context
from tests.pipeline.helpers import KEY, PLUGIN, metrics, run
from tests.store.helpers import builder, resolve
from wmbench.bench.attacking import Attacker
from wmbench.cli import main
from wmbench.cli.options import print_plan
from wmbench.config import Overrides
from wmbench.errors import ConfigError
from wmbench.report.gather import gather
from wmbench.types import Attacked, AttackInput


@pytest.fixture(autouse=True)
def a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMBENCH_KEY", KEY)


def labels(*attacks: Any, overrides: dict[str, Any] | None = None) -> list[str]:
    return [chain.label for chain in resolve({"attacks": list(attacks)}, Overrides(attacks=overrides or {})).attacks]


def test_strengths_and_grids_have_labels_of_their_own() -> None:
    assert labels("delete:0.5", "delete:0.1") == ["delete-0.5", "delete-0.1"]
    assert labels("delete:grid") == ["delete-0.1", "delete-0.2", "delete", "delete-0.4", "delete-0.5"]
    assert labels("copy-paste:grid") == ["copy-paste-0.1", "copy-paste", "copy-paste-0.5", "copy-paste-0.75"]


def test_chains() -> None:
    assert labels("swap|delete:0.2") == ["swap+delete-0.2"]
    assert labels(" swap:0.1 | crop ") == ["swap-0.1+crop"]
    assert labels("swap|crop:grid") == [f"swap+{crop}" for crop in ("crop-0.1", "crop-0.25", "crop-0.5", "crop-0.75")]
    chain = resolve({"attacks": ["swap:0.1|delete:0.2"]}).attacks[0].describe()
    assert chain["name"] == "swap|delete"
    assert chain["settings"] == {"steps": [{"name": "swap", "ratio": 0.1}, {"name": "delete", "ratio": 0.2}]}
    assert chain["strength"] == 0.2


def test_settings_of_a_step() -> None:
    plan = resolve({"attacks": ["swap|crop"]}, Overrides(attacks={"crop.side": "end"}))
    assert plan.attacks[0].steps[1].dump()["side"] == "end"
    assert plan.attacks[0].steps[0].dump() == {"ratio": 0.3}


def test_a_chain_costs_as_much_as_its_dearest_part() -> None:
    by_llm = {"name": "nonuniform-halves", "params": {"compress": "llm-compress", "expand": "llm-expand"}}
    by_chains = {"name": "nonuniform-regions", "params": {"compress": "llm-compress|swap:0.1"}}
    chosen = ["swap|delete", "swap|remask", "llm-rewrite|delete:0.2", "nonuniform-runs", by_llm, by_chains]
    costs = [chain.cost for chain in resolve({"attacks": chosen}).attacks]
    assert costs == ["local", "model", "api", "model", "api", "api"]


def test_a_plan_says_how_many_texts_go_through_which_attacks(capsys: pytest.CaptureFixture[str]) -> None:
    print_plan(resolve({"attacks": ["crop:grid", "remask:0.2"], "samples": 3, "attacked_nulls": 50}))
    listed = "crop-0.1, crop-0.25, crop-0.5, crop-0.75, remask-0.2"
    said = f"4 local, 1 model, each on 3 samples and 50 null texts of every set: {listed}\n"
    assert said in capsys.readouterr().out


def test_what_is_chosen_by_itself_is_not_chosen_again_by_a_collective_name() -> None:
    for chosen in (["local", "delete:0.3"], ["delete:0.3", "local"], ["local", "delete"], ["local", "delete:grid"]):
        found = labels(*chosen)
        assert found.count("delete") == 1
        assert len(set(found)) == len(found)
    assert labels("delete:grid", "delete:0.3").count("delete") == 1
    assert labels("delete", "delete") == ["delete"]


@pytest.mark.parametrize(
    ("attacks", "message"),
    [
        (["swap|delet:0.2"], "did you mean 'delete'"),
        (["swap|"], "empty step"),
        (["swap|identity:0.2"], "has no strength"),
        (["identity:grid"], "declares no strengths"),
        (["delete:2"], "ratio = '2'"),
        (["swap|crop", "swap|crop:0.3"], "chosen twice"),
        ([{"name": "swap|crop", "params": {"side": "end"}}], "which step is 'side' for"),
        ([{"name": "delete:0.2", "params": {"ratio": 0.5}}], "two strengths"),
        ([{"name": "delete:grid", "params": {"ratio": 0.5}}], "two strengths"),
        ([{"name": "swap|crop:0.2", "params": {"crop.share": 0.5}}], "two strengths"),
    ],
)
def test_errors(attacks: list[Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve({"attacks": attacks})


# --- in a run ------------------------------------------------------------------------------------------------------


def records(folder: str, label: str) -> dict[str, Any]:
    path = Path(folder) / "attacked" / f"{label}.jsonl"
    return {record["id"]: record for record in map(json.loads, path.read_text().splitlines())}


def test_a_run_with_chains_and_a_grid(tmp_path: Path) -> None:
    chosen = ["swap", "swap|swap", "delete:grid", "delete:0.2|substitute", "remask"]
    outcome = run(tmp_path, attacks=chosen)
    folder = outcome.folder
    assert {cell["attack"] for cell in metrics(outcome)["cells"]} == {
        "unattacked",
        *("swap", "swap+swap", "delete-0.1", "delete-0.2", "delete", "delete-0.4", "delete-0.5"),
        "delete-0.2+substitute",
        "remask",
    }
    swapped, twice = records(folder, "swap"), records(folder, "swap+swap")
    samples = {s["id"]: s for s in map(json.loads, (Path(folder) / "samples.jsonl").read_text().splitlines())}
    for identity, record in twice.items():
        assert record["text"] not in (samples[identity]["text"], swapped[identity]["text"])
        assert sorted(record["text"].split()) == sorted(samples[identity]["text"].split())
        assert [step["attack"] for step in record["details"]["steps"]] == ["swap", "swap"]
    words = {
        label: len(next(iter(records(folder, label).values()))["text"].split()) for label in ("delete-0.1", "delete")
    }
    assert words["delete-0.1"] > words["delete"]
    assert run(tmp_path, attacks=chosen).already_complete


def test_strength_curves_and_false_positives_go_from_the_command_to_the_report(tmp_path: Path) -> None:
    names = ("delete", "swap", "substitute", "remask", "copy-paste", "crop")
    grids = {f"{name}: {info(name).strength}": list(info(name).grid) for name in names}
    run(tmp_path, attacks=[f"{name}:grid" for name in names], samples=2, attacked_nulls=3)
    (report,) = gather([tmp_path], texts=0).measured
    found: dict[str | None, list[float | None]] = {}
    for cell in report.cells:
        found.setdefault(cell.curve, []).append(cell.strength)
    assert found == {None: [None], **grids}
    attacks = [cell.attack for cell in report.cells][1:]
    assert [after.attack for _, after in report.attacked_families] == attacks


def test_other_settings_make_another_curve() -> None:
    def curve(*chosen: Any) -> str:
        (found,) = {chain.describe()["curve"] for chain in resolve({"attacks": list(chosen)}).attacks}
        return str(found)

    assert curve("delete:grid") == curve("delete") == "delete: ratio"
    assert curve("swap|crop:grid") == "swap+crop: share"
    assert curve("identity") == "None"
    ends = {"side": "end"}
    by_end = curve({"name": "crop:grid", "params": ends})
    assert by_end == curve({"name": "crop", "params": ends}) != curve("crop:grid")


def test_a_step_that_fails_fails_the_chain_and_says_which(tmp_path: Path) -> None:
    outcome = run(tmp_path, attacks=["crop:0.99|delete"], failure_limit=1.0)
    for record in records(outcome.folder, "crop-0.99+delete").values():
        assert record["text"] is None
        assert record["error"].startswith("delete: the attack changed nothing")


def test_steps_that_undo_each_other_are_a_failure() -> None:
    """Two words can be swapped in one way only."""

    def attacked(chain: str) -> Attacked:
        attacker = Attacker(resolve({"attacks": [chain]}).attacks[0], builder())
        return attacker([AttackInput("x", "one two")], toy_context())[0]

    undone = attacked("swap:1|swap:1")
    assert undone.text is None
    assert undone.error == "the attack changed nothing: its steps undo each other"
    assert len(undone.details["steps"]) == 2
    assert attacked("swap:1|swap:1|swap:1").text == "two one"
    assert attacked("identity|delete:0").text == "one two"


def test_null_texts_are_attacked_by_chains_and_by_the_run_s_own_backbone(tmp_path: Path) -> None:
    found = metrics(run(tmp_path, attacks=["swap|remask"], attacked_nulls=10))
    families = {(family["family"], family.get("attack")): family["n"] for family in found["nulls"]}
    assert families["salad", "swap+remask"] == 10


# --- the normaliser ------------------------------------------------------------------------------------------------


def test_normalising_undoes_noise_in_detection(tmp_path: Path) -> None:
    """To the toy tokenizer a word with another alphabet's letter is another word."""
    attacks = ["homoglyph:1"]
    plain = metrics(run(tmp_path, attacks=attacks, alpha=0.05))
    undone = metrics(run(tmp_path, attacks=attacks, alpha=0.05, normalise=True))
    assert (plain["normalise"], undone["normalise"]) == (False, True)
    before, after = ({cell["attack"]: cell for cell in found["cells"]} for found in (plain, undone))
    assert after["homoglyph-1.0"]["auc"] == after["unattacked"]["auc"] == before["unattacked"]["auc"]
    assert before["homoglyph-1.0"]["auc"]["estimate"] < before["unattacked"]["auc"]["estimate"]


def test_detection_normalises_as_its_calibration_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calibration, plugin = str(tmp_path / "c.npz"), ["--plugin", str(PLUGIN)]
    small = ["--backbone", "tiny", "-D", "max_new_tokens=24", "--nulls", "salad", "--calibration-texts", "100"]
    made = ["calibrate", "--scheme", "green", "--out", calibration, "--normalise", "--output", str(tmp_path)]
    assert main([*made, *small, "--heldout-texts", "20", *plugin]) == 0
    for name, text in (("plain", "w3 w4 w5 w6 w7"), ("noisy", "w\u200b3 w4\u00a0w5  w6 w7")):
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
    capsys.readouterr()
    files = [str(tmp_path / "plain.txt"), str(tmp_path / "noisy.txt")]
    assert main(["detect", *files, "--calibration", calibration, "--json", *plugin]) == 0
    plain, noisy = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert plain["score"] == noisy["score"]
    assert main(["detect", *files, "--calibration", calibration, "--no-normalise", *plugin]) == 2
    assert "--normalise: calibrated True, now False" in capsys.readouterr().err
