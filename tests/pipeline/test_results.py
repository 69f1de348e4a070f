"""From samples to metrics: what a run ends with, and that every derived file can be lost."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipeline.helpers import calls, metrics, prepared, run, run_all
from tests.store.helpers import final_files
from wmbench.bench.jsonl import JsonlFile
from wmbench.bench.pipeline import execute
from wmbench.bench.table import print_summary
from wmbench.detection import Calibration, LikeLength
from wmbench.errors import CalibrationError, ConfigError, Interrupted

TRUTH = {"prompts.jsonl", "samples.jsonl", "attacked/identity.jsonl", "run.json"}


def table(*results: dict[str, Any]) -> str:
    out = io.StringIO()
    print_summary(results, out)
    return out.getvalue()


def verdicts(folder: str, name: str) -> list[dict[str, Any]]:
    return JsonlFile(Path(folder) / "verdicts" / f"{name}.jsonl").read()


def test_a_run_ends_in_metrics_with_n_and_intervals(tmp_path: Path) -> None:
    outcome = run(tmp_path)
    found = metrics(outcome)
    assert [cell["attack"] for cell in found["cells"]] == ["unattacked", "identity"]
    unattacked, identity = found["cells"]
    assert {**identity, "attack": "unattacked"} == unattacked  # the control changes nothing, bit for bit
    assert unattacked["n"] == 4
    assert unattacked["auc"]["estimate"] > 0.9
    assert unattacked["auc"]["n"] == [4, 50]
    at_one_percent = unattacked["tpr"]["0.01"]
    assert unattacked["tpr"]["0.05"]["threshold"]["n"] == at_one_percent["split"]["n"] == [4]
    assert at_one_percent["threshold"] is None  # one of 50 held-out texts has the smallest p of 100 null texts, too
    assert set(found["tied"]) == {"0.005", "0.01"}
    assert found["tied"]["0.01"]["why"] in table(found)
    assert at_one_percent["split"]["low"] <= at_one_percent["split"]["estimate"] <= at_one_percent["split"]["high"]
    assert found["calibration"]["n"] == 100
    (family,) = found["nulls"]
    assert (family["family"], family["n"], set(family["fpr"])) == ("salad", 50, {"0.005", "0.01", "0.05"})
    assert found["wrong_keys"]["n"] == 1
    assert found["wrong_keys"]["key_ids"] != [found["key_id"]]
    assert "unattacked" in table(found)


def test_verdicts_are_those_of_the_calibration(tmp_path: Path) -> None:
    folder = run(tmp_path).folder
    calibration = Calibration.load(Path(folder) / "calibration.npz")
    with np.load(Path(folder) / "scores" / "samples.npz") as archive:
        expected = calibration.scan(archive["scores"])
        assert archive["ids"].tolist() == [f"toy-{i:04d}" for i in range(4)]
    assert [v["p"] for v in verdicts(folder, "samples")] == expected.p_scan.tolist()
    assert [v["score"] for v in verdicts(folder, "samples")] == expected.s_rob.tolist()
    assert [v["detected"] for v in verdicts(folder, "samples")] == (expected.p_scan <= 0.01).tolist()
    assert len(verdicts(folder, "heldout-salad")) == 50


def test_deleting_or_damaging_any_derived_file_restores_it(tmp_path: Path) -> None:
    folder = Path(run(tmp_path).folder)
    expected = final_files(folder)
    derived = sorted(set(expected) - TRUTH)
    assert {"metrics.json", "calibration.npz", "filter.jsonl", "controls.npz", "derived.json"} <= set(derived)
    for number, name in enumerate(derived):
        if number % 2:
            (folder / name).write_bytes(expected[name][: len(expected[name]) // 2])
        else:
            (folder / name).unlink()
        assert not run(tmp_path).already_complete, name
        assert final_files(folder) == expected, name
    for name in sorted(TRUTH - {"samples.jsonl"}):  # made from the prompts and the samples, so they may be lost, too
        (folder / name).unlink()
        run(tmp_path)
        assert final_files(folder) == expected, name
    assert run(tmp_path).already_complete


def test_the_null_cache_may_be_lost(tmp_path: Path) -> None:
    folder = Path(run(tmp_path).folder)
    expected = final_files(folder)
    cached = final_files(tmp_path / ".cache")
    for path in sorted((tmp_path / ".cache").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    assert run(tmp_path).already_complete  # a finished run does not need it
    (folder / "scores" / "calibration-salad.npz").unlink()
    (folder / "scores" / "heldout-salad.npz").unlink()
    (folder / "controls.npz").unlink()
    run(tmp_path)
    assert final_files(folder) == expected
    assert final_files(tmp_path / ".cache") == cached


@pytest.mark.parametrize("hook", ["features", "score", "detect"])
def test_interrupted_while_measuring_and_resumed(tmp_path: Path, hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = final_files(run(tmp_path / "whole").folder)
    (halted,) = prepared(tmp_path / "torn")
    assert halted.detector is not None
    original, left = getattr(halted.detector, hook), [2]

    def interrupting(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(halted.detector, hook, interrupting)
    with pytest.raises(Interrupted):
        execute(halted)
    assert final_files(run(tmp_path / "torn").folder) == expected


def test_other_nulls_and_levels_decode_nothing_again(tmp_path: Path) -> None:
    folder = Path(run(tmp_path).folder)
    samples = (folder / "samples.jsonl").stat()
    assert {v["detected"] for v in verdicts(str(folder), "heldout-salad") if v["p"] > 0.01} == {False}
    run(tmp_path, alpha=0.2)
    heldout = verdicts(str(folder), "heldout-salad")
    assert [v["detected"] for v in heldout] == [v["p"] <= 0.2 for v in heldout]
    outcome = run(tmp_path, alpha=0.05, calibration_texts=150)
    assert outcome.folder == str(folder)
    assert (folder / "samples.jsonl").stat() == samples
    assert metrics(outcome)["calibration"]["n"] == 150
    assert Calibration.load(folder / "calibration.npz").n0 == 150


def test_an_unreachable_level_is_refused_before_decoding(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError) as caught:
        run(tmp_path, schemes=["wide"])
    assert "399" in str(caught.value.hint)  # 4 views / 0.01 - 1
    assert not list(tmp_path.iterdir())


def test_targets_that_cannot_be_reached_are_flagged(tmp_path: Path) -> None:
    found = metrics(run(tmp_path, schemes=["wide"], alpha=0.05))  # 100 nulls, 4 views: 0.0396 at best
    assert set(found["unresolved"]) == {"0.005", "0.01"}
    assert "799" in found["unresolved"]["0.005"]["hint"]
    at = found["cells"][0]["tpr"]
    assert at["0.01"]["split"] is None  # a zero would look like a measurement
    assert at["0.05"]["split"]["n"] == [4]
    assert found["nulls"][0]["fpr"]["0.01"] is None
    assert "n/a*" in table(found)
    assert "799" in table(found)


def test_dropped_samples_are_counted_and_never_attacked(tmp_path: Path) -> None:
    everything = run(tmp_path)
    ratios = [v["repetition"] for v in JsonlFile(Path(everything.folder) / "filter.jsonl").read()]
    limit = sorted(ratios)[1]
    outcome = run(tmp_path / "strict", filters={"max_repetition": limit, "strict_repetition": True})
    dropped = sum(ratio >= limit for ratio in ratios)
    assert dropped > 0
    assert outcome.dropped == {"repetitive": dropped}
    document = json.loads((Path(outcome.folder) / "run.json").read_bytes())
    assert document["dropped"] == {"repetitive": dropped}
    assert outcome.counts["attacked/identity"].total == 4 - dropped
    attacked = JsonlFile(Path(outcome.folder) / "attacked" / "identity.jsonl").read()
    assert len(attacked) == 4 - dropped
    assert metrics(outcome)["samples"]["kept"] == 4 - dropped


def test_when_every_sample_is_dropped_the_table_says_so(tmp_path: Path) -> None:
    outcome = run(tmp_path, filters={"min_tokens": 1000})
    assert outcome.dropped == {"short": 4}
    found = metrics(outcome)
    assert [cell["n"] for cell in found["cells"]] == [0, 0]
    assert "kept 0 of 4 samples (4 short)" in table(found)
    assert "no text" in table(found)


def test_the_control_has_no_metrics_and_its_texts_are_nulls_to_the_others(tmp_path: Path) -> None:
    control, marked = run_all(tmp_path, schemes=["green", "none"])
    assert control.metrics is None
    assert not (Path(control.folder) / "scores").exists()
    assert [family["family"] for family in metrics(marked)["nulls"]] == ["salad", "clean"]
    clean = [record["id"] for record in JsonlFile(Path(control.folder) / "samples.jsonl").read()]
    assert [verdict["id"] for verdict in verdicts(marked.folder, "clean")] == clean
    assert "samples_auc" in metrics(marked)["wrong_keys"]
    assert "clean_auc" in metrics(marked)["wrong_keys"]


def test_further_keys_cost_no_features(tmp_path: Path) -> None:
    run(tmp_path, schemes=["own"])
    before = calls()
    found = metrics(run(tmp_path, schemes=["own"], keys=5))
    after = calls()
    assert found["wrong_keys"]["n"] == len(set(found["wrong_keys"]["key_ids"])) == 5
    assert len(found["wrong_keys"]["samples_auc"]["per_key"]) == 5
    assert after["features"] - before["features"] == 2  # probes: which views, which levels
    assert after["score"] > before["score"]


def test_wrong_keys_are_silent_where_the_right_one_is_loud(tmp_path: Path) -> None:
    """Word salad against a random model: averaged over keys, the wrong ones see nothing that the right one sees."""
    found = metrics(run(tmp_path, keys=25, samples=8, attacks=[]))
    assert found["cells"][0]["auc"]["estimate"] > 0.9
    wrong = found["wrong_keys"]
    assert wrong["samples_auc"]["low"] < 0.5 < wrong["samples_auc"]["high"]
    assert wrong["fpr"]["estimate"] < 0.05


def test_one_command_prints_the_controls(tmp_path: Path) -> None:
    """Averaged over 25 keys, clean texts and wrong keys are null; `identity` changes nothing."""
    shown = metrics(run_all(tmp_path, schemes=["none", "green"], samples=8, keys=25)[-1])
    assert abs(shown["wrong_keys"]["clean_auc"]["estimate"] - 0.5) <= 0.05
    assert shown["identity"] == {"n": 8, "unchanged": 8}
    printed = " ".join(table(shown).split())
    for texts in ("clean", "marked"):
        null = {"clean": "(the mean is )?within 0.5", "marked": "its interval holds 0.5"}[texts]
        assert re.search(rf"{texts} texts under 25 keys that marked nothing: AUC [^;]+, {null}", printed)
        assert printed.count(f"25 wrong keys: {texts}") == 1
    assert "identity changes nothing (n = 8)" in printed


def test_controls_compare_texts_of_like_length(tmp_path: Path) -> None:
    outcome = run_all(tmp_path, schemes=["none", "green"], attacks=[], samples=8, keys=3, heldout_texts=300)[-1]
    shown = metrics(outcome)
    wrong, folder = shown["wrong_keys"], Path(outcome.folder)
    with np.load(folder / "controls.npz") as controls:
        tokens, nulls = controls["clean.tokens"], controls["heldout-salad.tokens"]
        scores, null_scores = controls["clean.score"], controls["heldout-salad.score"]
    assert tokens.tolist() == np.load(folder / "features" / "clean.lengths.npy").tolist()
    assert (len(nulls), nulls.min() < 0.7 * nulls.max()) == (300, True)
    like = LikeLength.of(tokens, nulls)
    found = wrong["clean_auc_like_length"]
    assert found["per_key"] == [like.auc(*pair) for pair in zip(scores, null_scores, strict=True)]
    assert found["per_key"] != wrong["clean_auc"]["per_key"]
    assert (found["texts"], found["unmatched"], found["percent"]) == (like.matched, like.unmatched, 5)
    assert wrong["samples_auc_like_length"]["texts"] > 0
    printed = " ".join(table(shown).split())
    assert f"AUC {found['estimate']:.3f}" in printed
    assert f"against null texts of like length ({wrong['clean_auc']['estimate']:.3f} against all" in printed


def test_too_few_texts_of_like_length_are_said(tmp_path: Path) -> None:
    shown = metrics(run_all(tmp_path, schemes=["none", "green"], attacks=[], keys=2)[-1])  # 50 held-out texts
    found = shown["wrong_keys"]["clean_auc_like_length"]
    assert (found["estimate"], found["texts"], found["unmatched"]) == (None, 0, 4)
    assert "against null texts of all lengths (too few are of like length)" in " ".join(table(shown).split())


def test_a_control_that_fails_says_so(tmp_path: Path) -> None:
    outcome = run_all(tmp_path, schemes=["none", "green"], keys=2)[-1]
    file = JsonlFile(Path(outcome.folder) / "attacked" / "identity.jsonl")
    first, *others = file.read()
    file.rewrite([{**first, "text": first["text"] + " w3"}, *others])
    shown = metrics(run_all(tmp_path, schemes=["none", "green"], keys=2)[-1])
    assert shown["identity"] == {"n": 4, "unchanged": 3}
    shown["wrong_keys"]["clean_auc"]["estimate"] = 0.6
    shown["wrong_keys"]["n"] = 25
    printed = " ".join(table(shown).split())
    assert "NOT within 0.5 +- 0.05" in printed
    assert "identity CHANGED 1 texts" in printed


def test_one_wrong_key_has_no_interval(tmp_path: Path) -> None:
    shown = metrics(run(tmp_path))
    area = shown["wrong_keys"]["samples_auc"]
    assert (area["low"], area["high"], len(area["per_key"])) == (None, None, 1)
    assert f"{area['estimate']:.3f} (one key)" in table(shown)
    assert "that marked nothing" not in table(shown)
    two = metrics(run(tmp_path, keys=2))["wrong_keys"]["samples_auc"]
    assert two["low"] <= two["estimate"] <= two["high"]


def test_a_fixed_key_has_no_wrong_key(tmp_path: Path) -> None:
    found = metrics(run(tmp_path, schemes=["fixed"]))
    assert found["wrong_keys"] == {"n": 0, "why": "key use is fixed"}
    assert "n/a" in table(found)


def test_null_texts_and_token_features_are_shared_by_schemes(tmp_path: Path) -> None:
    run_all(tmp_path, schemes=["green", "wide"], alpha=0.05)
    (nulls,) = (tmp_path / ".cache" / "nulls").iterdir()
    assert len(list((nulls / "features").iterdir())) == 1
    run(tmp_path, schemes=["own"])
    assert len(list((nulls / "features").iterdir())) == 2


def test_a_set_of_prompts_is_no_null_set(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds prompts, not null texts"):
        run(tmp_path, nulls=["toy"])


def test_a_published_constant_has_no_wrong_key(tmp_path: Path) -> None:
    """The registration says `secret`; the configuration knows better."""
    secret = run(tmp_path, schemes=["patternmark"], samples=2)
    fixed = run(tmp_path, schemes=[{"name": "patternmark", "params": {"prf": "official"}}], samples=2)
    assert metrics(secret)["wrong_keys"]["n"] == 1
    assert metrics(fixed)["wrong_keys"] == {"n": 0, "why": "key use is fixed"}
    assert metrics(fixed)["key_id"] is None
    assert "wrong key: n/a" in table(metrics(fixed))
