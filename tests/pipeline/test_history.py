"""A folder that has a history must say what a fresh one would say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.pipeline.helpers import metrics, run, run_all
from tests.pipeline.test_options import RAGGED, UNMARKED
from wmbench.detection import Calibration


def test_a_setting_that_decides_verdicts_but_no_score_takes_effect(tmp_path: Path) -> None:
    """As `scan_rule` of the semantic schemes."""

    def measured(output: Path, law: bool) -> str:
        return run(output, schemes=[{"name": "tuned", "params": {"law": law}}]).folder

    before = measured(tmp_path / "old", False)
    folder, fresh = measured(tmp_path / "old", True), measured(tmp_path / "new", True)
    assert folder == before
    for name in ("verdicts/samples.jsonl", "metrics.json"):
        assert Path(folder, name).read_bytes() == Path(fresh, name).read_bytes()
    assert Calibration.load(Path(folder, "calibration.npz")).metadata["scheme"]["settings"]["law"] is True


def test_another_calibration_under_a_law_takes_effect(tmp_path: Path) -> None:
    """The verdicts of a law stay as they are; what they stand beside does not."""

    def measured(output: Path, texts: int) -> dict[str, Any]:
        schemes = [{"name": "tuned", "params": {"law": True}}]
        return metrics(run(output, schemes=schemes, calibration_texts=texts))

    measured(tmp_path / "old", 100)
    assert measured(tmp_path / "old", 120) == measured(tmp_path / "new", 120)


def test_looser_filters_count_one_answer_of_a_prompt(tmp_path: Path) -> None:
    def verdicts(output: Path, fewest: int) -> dict[str, dict[str, Any]]:
        options: dict[str, Any] = {"schemes": [UNMARKED], "decoding": RAGGED, "samples": 12, "attacks": []}
        folder = run(output, filters={"min_tokens": fewest}, retries=2, **options).folder
        return {v["id"]: v for v in map(json.loads, Path(folder, "filter.jsonl").read_text().splitlines())}

    fresh = verdicts(tmp_path / "new", 0)
    verdicts(tmp_path / "old", max(verdict["tokens"] for verdict in fresh.values()))
    relaxed = verdicts(tmp_path / "old", 0)
    assert {i for i, v in relaxed.items() if v["kept"]} == {i for i, v in fresh.items() if v["kept"]}
    assert "surplus" in {v["reason"] for i, v in relaxed.items() if i not in fresh}


def test_an_attack_that_fails_on_every_null_text_is_counted(tmp_path: Path) -> None:
    attack = {"name": "refuse"}
    (outcome,) = run_all(tmp_path, attacks=[attack], attacked_nulls=5)
    assert outcome.counts["heldout-salad-attacked-refuse"].failed == 5
    assert all(family["attack"] is None for family in metrics(outcome)["nulls"])
