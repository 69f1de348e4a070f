"""Figures of metrics.json and of comparisons, on numbers made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wmbench.bench.comparison import PairedNulls, compare_runs, paired_detection
from wmbench.bench.cost import cost_per_token, seconds_per_token
from wmbench.bench.measure import Judged, crowded_top, detection, tokens_to_detect
from wmbench.detection import auc, bootstrap, bootstrap_roc, tpr_at_fpr
from wmbench.errors import ConfigError


def test_the_fast_bootstrap_is_the_plain_one() -> None:
    draw = np.random.default_rng(1)
    pos, neg = draw.integers(3, 9, 20).astype(float), draw.integers(0, 6, 60).astype(float)  # many ties
    fast = bootstrap_roc(pos, neg, (0.01, 0.1), seed=3, resamples=200)
    plain = bootstrap(auc, pos, neg, seed=3, resamples=200)
    assert fast.auc == plain
    for target in (0.01, 0.1):
        slow = bootstrap(lambda p, n, f=target: tpr_at_fpr(p, n, f, "interpolated"), pos, neg, seed=3, resamples=200)
        assert fast.tpr[target] == slow


def test_every_figure_of_a_cell_has_an_interval() -> None:
    draw = np.random.default_rng(0)
    positives = Judged(p=draw.random(30) * 0.02, score=draw.normal(3, 1, 30))
    negatives = Judged(p=draw.random(80), score=draw.normal(0, 1, 80))
    cell = detection(positives, negatives)
    for rates in cell["tpr"].values():
        for name in ("threshold", "split", "interpolated_interval"):
            assert rates[name]["low"] <= rates[name]["estimate"] <= rates[name]["high"]
        assert rates["interpolated"] == rates["interpolated_interval"]["estimate"]
        assert rates["interpolated"] >= rates["threshold"]["estimate"]


def test_no_threshold_lies_above_null_texts_that_share_the_highest_score() -> None:
    def judged(*scores: float) -> Judged:
        return Judged(np.full(len(scores), 0.01), np.array(scores))

    nulls = judged(*[0.0] * 97, 5.0, 5.0, 5.0)  # three of 100 end where an empirical p ends
    tied = judged(5.0, 5.0, 1.0)
    assert [crowded_top([tied], nulls, t) for t in (0.01, 0.05)] == [3, 0]  # five may be detected at 5%
    assert crowded_top([judged(1.0), tied], nulls, 0.01) == 3  # one attack is enough to know
    assert crowded_top([judged(5.1, 5.0)], nulls, 0.01) == 0  # a threshold of 5 finds the first
    assert crowded_top([judged(4.9)], nulls, 0.01) == 0  # not found, and rightly so
    assert detection(tied, nulls, tied=["0.01"])["tpr"]["0.01"]["threshold"] is None
    assert detection(tied, nulls)["tpr"]["0.05"]["threshold"]["estimate"] == 1.0


def test_tokens_needed_to_detect() -> None:
    texts = [
        {"25": 0.5, "50": 0.01, "75": 0.9},
        {"25": 0.001, "50": 0.001, "75": 0.001},
        {"25": 1.0, "50": 1.0, "75": 0.01},
    ]
    found = tokens_to_detect(texts, 0.01)
    assert found is not None
    assert found["estimate"] == 50
    assert found["never"]["estimate"] == 0
    assert {n: rate["estimate"] for n, rate in found["detected_after"].items()} == pytest.approx(
        {"25": 1 / 3, "50": 2 / 3, "75": 2 / 3}
    )
    lost = tokens_to_detect([{"25": 1.0}, {"25": 0.5}, {"25": 0.001}], 0.01)
    assert lost is not None
    assert lost["estimate"] is None
    assert "not detected after 25 tokens" in lost["why"]
    assert tokens_to_detect([{}], 0.01) is None


def sample(rows: int, tokens: int) -> dict[str, Any]:
    cost = {"forward_rows": rows, "forward_tokens": 10 * rows, "head_rows": rows, "steps": tokens}
    return {"cost": cost, "token_ids": list(range(tokens))}


def test_cost_per_token_and_its_ratio_to_clean() -> None:
    found = cost_per_token([sample(40, 10), sample(60, 10)], [sample(10, 10), sample(10, 10)])
    assert found["tokens"] == 20
    assert found["forward_rows"]["estimate"] == 5.0
    assert found["forward_rows_ratio"]["estimate"] == 5.0
    assert found["forward_rows_ratio"]["low"] < 5.0 < found["forward_rows_ratio"]["high"]
    assert "forward_rows_ratio" not in cost_per_token([sample(40, 10)])
    assert cost_per_token([]) == {"tokens": 0}


def test_seconds_per_token_over_several_invocations(tmp_path: Path) -> None:
    invocation = {"event": "invocation", "batch_size": 8, "threads": 2}
    done = [{"event": "sample", "at": at, "tokens": 100} for at in (1.0, 2.5)]
    lines = [invocation, *done, invocation, {"event": "sample", "at": 1.5, "tokens": 100}]
    (tmp_path / "timings.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = seconds_per_token(tmp_path)
    assert found is not None
    assert found["seconds_per_token"] == pytest.approx(4.0 / 300)
    (tmp_path / "timings.jsonl").write_text(json.dumps(invocation) + "\n")
    assert seconds_per_token(tmp_path) is None


def verdicts(scores: Any, prefix: str = "p") -> dict[str, tuple[float, float]]:
    return {f"{prefix}{i}": (float(np.exp(-s)), float(s)) for i, s in enumerate(scores)}


def test_pairs_cancel_what_is_hard_for_both() -> None:
    draw = np.random.default_rng(5)
    hard, nulls = draw.normal(4, 3, 60), draw.normal(0, 1, 200)
    first, second = verdicts(hard + 0.3), verdicts(hard)
    found = paired_detection(first, second, PairedNulls.of(verdicts(nulls, "n"), verdicts(nulls, "n")))
    assert found["n"] == 60
    assert found["auc"]["first"] - found["auc"]["second"] == pytest.approx(found["auc"]["estimate"])
    assert found["auc"]["low"] > 0  # better on every text, however much the texts differ
    unpaired = paired_detection(first, second, PairedNulls.of(verdicts(nulls, "n"), verdicts(nulls, "m")))
    assert unpaired["auc"]["high"] - unpaired["auc"]["low"] > found["auc"]["high"] - found["auc"]["low"]
    paired = PairedNulls.of(verdicts(nulls, "n"), verdicts(nulls, "n"))
    assert paired_detection(first, verdicts([], "p"), paired) == {"n": 0}


def test_a_scheme_does_not_differ_from_itself() -> None:
    scores, nulls = np.linspace(0, 5, 40), np.linspace(-2, 2, 90)
    found = paired_detection(
        verdicts(scores), verdicts(scores), PairedNulls.of(verdicts(nulls, "n"), verdicts(nulls, "n"))
    )
    for rates in found["tpr"].values():
        for figure in rates.values():
            assert (figure["estimate"], figure["low"], figure["high"]) == (0, 0, 0)


def test_a_folder_without_results_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no results"):
        compare_runs(tmp_path, tmp_path)
