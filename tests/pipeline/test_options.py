"""What a run can be asked for beyond the plain table; on the tiny backbone, in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.helpers import calls, metrics, module, run, run_all
from tests.store.helpers import final_files
from wmbench.bench.comparison import compare_runs
from wmbench.bench.jsonl import JsonlFile
from wmbench.bench.stages.base import Tally
from wmbench.errors import ConfigError


def records(folder: str, name: str) -> list[dict[str, Any]]:
    return JsonlFile(Path(folder) / name).read()


def test_null_features_and_scores_are_computed_once_for_all_data_sets(tmp_path: Path) -> None:
    other = tmp_path / "prompts.jsonl"
    other.write_text('{"prompt": "w5 w6"}\n{"prompt": "w7"}\n')
    before = calls()
    run_all(tmp_path / "runs", schemes=["own"], datasets=["toy", f"jsonl:{other}"], attacks=[], keys=3)
    after = calls()
    own_texts, probes = 4 + 2, 4  # a run asks twice which views there are
    assert after["features"] - before["features"] == 150 + own_texts + probes
    # Null texts: 2 halves x 4 keys, once. Samples: 4 keys x 2 data sets. Probes beside them.
    assert after["score"] - before["score"] == 2 * 4 + 4 * 2 + probes


def test_settings_of_marking_share_features_when_the_scheme_says_so(tmp_path: Path) -> None:
    for delta in (1.0, 2.0):
        run(tmp_path, schemes=[{"name": "declared", "params": {"delta": delta}}], attacks=[])
        run(tmp_path, schemes=[{"name": "own", "params": {"delta": delta}}], attacks=[])
    (nulls,) = (tmp_path / ".cache" / "nulls").iterdir()
    assert len(list((nulls / "features").iterdir())) == 1 + 2


def test_false_positives_under_attack(tmp_path: Path) -> None:
    outcome = run_all(tmp_path, schemes=["none", "green"], attacked_nulls=20)[-1]
    families = {(f["family"], f["attack"]): f for f in metrics(outcome)["nulls"]}
    assert list(families) == [("salad", None), ("clean", None), ("salad", "identity"), ("clean", "identity")]
    assert families["salad", "identity"]["n"] == 20
    # `identity` changes nothing: the same verdicts, bit for bit
    whole = records(outcome.folder, "verdicts/heldout-salad.jsonl")
    assert records(outcome.folder, "verdicts/heldout-salad-attacked-identity.jsonl") == whole[:20]
    assert families["clean", "identity"]["fpr"] == families["clean", None]["fpr"]
    assert not [f for f in metrics(run(tmp_path, attacked_nulls=0))["nulls"] if f["attack"]]


RAGGED = {"max_new_tokens": 24, "eos": "stop", "positions": "left_to_right", "temperature": 1.5}
"""Answers of different lengths; a mark would outbid the end of the text."""
UNMARKED = {"name": "green", "params": {"delta": 0.0}}


def lengths(folder: str) -> list[int]:
    return [verdict["tokens"] for verdict in records(folder, "filter.jsonl")]


def test_topping_up_keeps_as_many_as_were_asked_for(tmp_path: Path) -> None:
    options: dict[str, Any] = {"schemes": [UNMARKED], "decoding": RAGGED, "attacks": []}
    tokens = lengths(run(tmp_path / "plain", samples=12, **options).folder)
    strict = {"min_tokens": max(tokens)}
    topped = {**options, "samples": 4, "top_up": True, "filters": strict}
    outcome = run(tmp_path / "topped", **topped)
    verdicts = records(outcome.folder, "filter.jsonl")
    assert sum(verdict["kept"] for verdict in verdicts) == 4 == metrics(outcome)["cells"][0]["n"]
    assert len(verdicts) > 4
    assert verdicts[-1]["kept"]  # not one prompt more than needed
    assert lengths(outcome.folder) == tokens[: len(verdicts)]  # the same texts as without topping up
    assert final_files(run(tmp_path / "small", **topped, batch_size=1).folder) == final_files(outcome.folder)
    assert run(tmp_path / "topped", **topped).already_complete
    relaxed = run(tmp_path / "topped", **{**topped, "filters": {"min_tokens": 0}})
    reasons = [verdict["reason"] for verdict in records(relaxed.folder, "filter.jsonl")]
    assert reasons == [None] * 4 + ["surplus"] * (len(verdicts) - 4)


def test_dropped_answers_are_drawn_again(tmp_path: Path) -> None:
    options: dict[str, Any] = {"schemes": [UNMARKED], "decoding": RAGGED, "attacks": ["identity"]}
    plain = run(tmp_path / "plain", **options)
    strict = {"min_tokens": max(lengths(plain.folder))}
    outcome = run(tmp_path / "retried", retries=2, filters=strict, **options)
    samples = records(outcome.folder, "samples.jsonl")
    assert len(samples) > 4
    assert samples[0]["text"] == records(plain.folder, "samples.jsonl")[0]["text"]
    verdicts = {verdict["id"]: verdict["kept"] for verdict in records(outcome.folder, "filter.jsonl")}
    for prompt in range(4):
        tried = [i for i in verdicts if i.startswith(f"toy-000{prompt}")]
        assert tried == [f"toy-000{prompt}", *(f"toy-000{prompt}~{n}" for n in range(1, len(tried)))]
        assert not any(verdicts[i] for i in tried[:-1])
        assert verdicts[tried[-1]] or len(tried) == 3
    texts = [sample["text"] for sample in samples if sample["text"]]
    assert len(set(texts)) == len(texts)  # other randomness, other text
    times = [record["at"] for record in records(outcome.folder, "timings.jsonl") if record["event"] == "sample"]
    assert times == sorted(times)  # one clock for all rounds


def test_how_many_tokens_it_takes(tmp_path: Path) -> None:
    outcome = run(tmp_path, lengths=[6, 12, 20], attacks=[])
    found = metrics(outcome)["tokens_to_detect"]
    assert set(found["detected_after"]) == {"6", "12", "20"}
    by_length = records(outcome.folder, "lengths.jsonl")
    assert [record["id"] for record in by_length] == [f"toy-{i:04d}" for i in range(4)]
    assert all(set(record["p"]) == {"6", "12", "20"} for record in by_length)
    assert metrics(run(tmp_path, attacks=[]))["tokens_to_detect"] is None


def test_quality_says_why_there_is_none(tmp_path: Path) -> None:
    quality = metrics(run(tmp_path, attacks=[]))["quality"]
    assert quality["judge"] is None
    assert "language of the lab" in quality["why"]
    with pytest.raises(ConfigError, match="no judge"):
        run(tmp_path, judge="nobody")


def test_cost_and_its_ratio_to_clean(tmp_path: Path) -> None:
    cost = metrics(run_all(tmp_path, schemes=["none", "green"], attacks=[])[-1])["cost"]
    assert cost["tokens"] == 4 * 24
    assert cost["forward_rows"]["estimate"] == 1.0  # one token per step, one forward per token
    assert cost["forward_rows_ratio"]["estimate"] == 1.0


def test_wrong_keys_have_rates_for_every_family_and_target(tmp_path: Path) -> None:
    wrong = metrics(run_all(tmp_path, schemes=["none", "green"], attacks=[], keys=4)[-1])["wrong_keys"]
    assert [family["family"] for family in wrong["families"]] == ["salad", "clean", "marked"]
    for family in wrong["families"]:
        assert set(family["fpr"]) == {"0.005", "0.01", "0.05"}
        assert len(family["fpr"]["0.05"]["per_key"]) == 4


def test_two_runs_side_by_side(tmp_path: Path) -> None:
    strong, weak = run_all(
        tmp_path, schemes=[{"name": "green", "params": {"delta": 6.0}}, {"name": "fixed", "params": {"delta": 0.0}}]
    )
    found = compare_runs(Path(strong.folder), Path(weak.folder))
    assert [cell["attack"] for cell in found["cells"]] == ["unattacked", "identity"]
    assert found["cells"][0]["n"] == 4
    assert found["cells"][0]["auc"]["estimate"] > 0
    assert found["same_nulls"]
    (flag,) = found["flags"]
    assert "only 4 shared prompts" in flag
    other = run(tmp_path, calibration_texts=120)
    with pytest.raises(ConfigError, match="different null texts"):
        compare_runs(Path(other.folder), Path(weak.folder))
    flagged = compare_runs(Path(other.folder), Path(weak.folder), any_nulls=True)
    assert "null sets differ" in flagged["flags"][0]


def test_an_attack_that_raises_on_one_text_fails_that_text_only(tmp_path: Path) -> None:
    outcome = run(tmp_path, attacks=["moody"])
    assert outcome.status == "partial"
    assert outcome.counts["attacked/moody"].failed == 1
    failed = [record for record in records(outcome.folder, "attacked/moody.jsonl") if record["error"]]
    assert [record["id"] for record in failed] == ["toy-0002"]
    assert "not this one" in failed[0]["error"]
    assert run(tmp_path, attacks=["moody"]).already_complete
    assert not run(tmp_path, attacks=["moody"], retry_failed=True).already_complete


def test_null_texts_that_an_attack_fails_on_count_as_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And can be attacked again. Samples of the run are all right."""
    options: dict[str, Any] = {"attacks": ["strike"], "attacked_nulls": 20}
    name = "heldout-salad-attacked-strike"
    outcome = run(tmp_path, **options)
    failed = 20 - len(records(outcome.folder, f"verdicts/{name}.jsonl"))
    assert 0 < failed < 20
    assert outcome.status == "partial"
    assert outcome.counts["attacked/strike"].failed == 0
    assert outcome.counts[name] == Tally(20, 20, failed)
    assert outcome.failure_rate == failed / 20
    assert json.loads(Path(outcome.folder, "run.json").read_bytes())["counts"][name]["failed"] == failed
    again = run(tmp_path, **options)
    assert (again.already_complete, again.failure_rate) == (True, outcome.failure_rate)

    monkeypatch.setattr(module().Strike, "on", False)
    assert run(tmp_path, **options).already_complete
    mended = run(tmp_path, **options, retry_failed=True)
    assert (mended.already_complete, mended.status, mended.counts[name].failed) == (False, "success", 0)
    assert {f["attack"]: f["n"] for f in metrics(mended)["nulls"]} == {None: 50, "strike": 20}
    assert run(tmp_path, **options, retry_failed=True).already_complete


def test_more_null_texts_to_attack_than_there_are_is_no_failure(tmp_path: Path) -> None:
    outcome = run(tmp_path, attacked_nulls=80)
    assert (outcome.status, outcome.counts["heldout-salad-attacked-identity"]) == ("success", Tally(50, 50))
