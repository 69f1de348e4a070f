"""The last stage: metrics.json, every rate with its n and an interval, and what the rates stand on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from wmbench.bench.cost import cost_per_token
from wmbench.bench.derived import digest
from wmbench.bench.jsonl import Record
from wmbench.bench.measure import (
    FPR_TARGETS,
    Judged,
    auc_interval,
    auc_over_keys,
    bootstrapped,
    crowded_top,
    detection,
    false_positives,
    false_positives_over_keys,
    like_length_auc_over_keys,
    mean,
    over_keys,
    rate,
    target_name,
    tokens_to_detect,
)
from wmbench.bench.stages.base import Run, Tally
from wmbench.bench.stages.calibrate import FILE as CALIBRATION
from wmbench.bench.stages.calibrate import read_calibration
from wmbench.bench.stages.controls import FILE as CONTROLS
from wmbench.bench.stages.controls import read_controls, wrong_keys
from wmbench.bench.stages.detect import judged_sets, read_verdicts, verdict_file
from wmbench.bench.stages.filter import drop_counts
from wmbench.bench.stages.lengths import FILE as LENGTHS
from wmbench.bench.stages.lengths import lengths_of, read_lengths
from wmbench.bench.stages.quality import FILE as QUALITY
from wmbench.bench.stages.quality import judge_of, read_quality
from wmbench.bench.stages.score import attacked_null_name, null_name
from wmbench.bench.textset import (
    CLEAN,
    SAMPLES,
    UNATTACKED,
    attacked_clean_name,
    attacked_name,
    attacked_texts,
    kept_samples,
)
from wmbench.disk import pretty_json

FILE = "metrics.json"
SCHEMA_VERSION = 4
IDENTITY = "identity"


class MetricsStage:
    name = "metrics"

    def is_complete(self, run: Run) -> bool:
        return run.detector is None or run.store.derived.is_current(FILE, self._inputs(run))

    def work(self, run: Run) -> None:
        if run.detector is not None:
            run.store.derived.write(FILE, self._inputs(run), pretty_json(metrics(run)))

    def tallies(self, run: Run) -> dict[str, Tally]:
        return {}

    def _inputs(self, run: Run) -> str:
        derived, config = run.store.derived, run.plan.config
        # The calibration, too: where p-values follow a law, another one changes no verdict.
        names = ["filter.jsonl", CALIBRATION, *(verdict_file(scored.name) for scored in judged_sets(run))]
        names += [CONTROLS] if wrong_keys(run) else []
        names += [LENGTHS] if lengths_of(run) else []
        judge = judge_of(run)
        quality = judge if isinstance(judge, str) else [derived.content_digest(QUALITY), _clean_quality(run)]
        asked: list[object] = [SCHEMA_VERSION, config.alpha, config.normalise, config.attacked_nulls]
        asked += [attack.label for attack in run.plan.attacks]
        costs = [[sample["cost"] for sample in _all_samples(one)] for one in (run, run.clean)]
        return digest([asked, {name: derived.content_digest(name) for name in names}, quality, costs])


def metrics(run: Run) -> dict[str, Any]:
    assert run.detector is not None
    plan, calibration = run.plan, read_calibration(run)
    judged = {scored.name: Judged.of(read_verdicts(run, scored.name)) for scored in judged_sets(run)}
    heldout = judged[null_name(run.nulls[0], "heldout")]
    views = run.detector.probe(run.key)
    refusals = {target_name(t): run.detector.unresolved(views, calibration.n0, t) for t in FPR_TARGETS}
    unresolved = {t: {"why": error.message, "hint": error.hint} for t, error in refusals.items() if error}
    tied = _tied(run, judged, heldout)
    return {
        "schema_version": SCHEMA_VERSION,
        "scheme": plan.scheme.label,
        "alg_id": plan.scheme.info.alg_id,
        "status": plan.scheme.info.status,
        "backbone": plan.backbone.label,
        "dataset": plan.dataset.label,
        "key_id": run.identity["key_id"],
        "alpha": plan.config.alpha,
        "normalise": plan.config.normalise,
        "samples": {
            "total": len(_all_samples(run)),
            "kept": len(kept_samples(run)),
            "dropped": drop_counts(run),
        },
        "calibration": {"n": calibration.n0, "views": len(calibration.views), "nulls": run.nulls[0].identity},
        "unresolved": unresolved,
        "tied": tied,
        "cells": [_cell(run, label, judged, unresolved, tied) for label in (None, *(a.label for a in plan.attacks))],
        "nulls": _families(run, judged, unresolved),
        "clean_auc": auc_interval(judged[CLEAN], heldout) if CLEAN in judged else None,
        "wrong_keys": _wrong_keys(run, unresolved),
        "identity": _identity(run),
        "tokens_to_detect": _tokens_to_detect(run),
        "quality": _quality(run),
        "cost": cost_per_token(_all_samples(run), _all_samples(run.clean)),
    }


def _tied(run: Run, judged: dict[str, Judged], heldout: Judged) -> dict[str, dict[str, str]]:
    """Targets at which the held-out null texts leave no room for a threshold, under no attack and under all: why."""
    names = [SAMPLES, *(attacked_name(attack.label) for attack in run.plan.attacks)]
    marked = [judged[name] for name in names if name in judged]
    crowds = {t: crowded_top(marked, heldout, t) for t in FPR_TARGETS}
    return {
        target_name(t): {
            "why": f"no threshold: {crowd} of {len(heldout):,} held-out null texts score as high as any text can",
            "hint": "use more --calibration-texts, which tell high scores apart, and more --heldout-texts",
        }
        for t, crowd in crowds.items()
        if crowd
    }


def _cell(
    run: Run, label: str | None, judged: dict[str, Judged], unresolved: Collection[str], tied: Collection[str]
) -> dict[str, Any]:
    """One attack (None: no attack). A cell without texts has n = 0 and no rates."""
    name = SAMPLES if label is None else attacked_name(label)
    failed = len(kept_samples(run)) - len(attacked_texts(run, label)) if label is not None else 0
    cell: dict[str, Any] = {"attack": label or UNATTACKED, "failed": failed, "n": 0}
    if name not in judged:
        return cell
    found, heldout = judged[name], judged[null_name(run.nulls[0], "heldout")]
    return {**cell, **detection(found, heldout, unresolved, tied), "detected": rate(found.p <= run.plan.config.alpha)}


def _families(run: Run, judged: dict[str, Judged], unresolved: Collection[str]) -> list[dict[str, Any]]:
    """False positives by null family, the held-out half of what calibrated first; attacked ones behind all others."""
    labels = [attack.label for attack in run.plan.attacks]
    names: list[tuple[str, str | None, str]] = [(spec.label, None, null_name(spec, "heldout")) for spec in run.nulls]
    names.append((CLEAN, None, CLEAN))
    names += [(spec.label, label, attacked_null_name(spec, label)) for spec in run.nulls for label in labels]
    names += [(CLEAN, label, attacked_clean_name(label)) for label in labels]
    return [
        {"family": family, "attack": attack, **false_positives(judged[name], unresolved)}
        for family, attack, name in names
        if name in judged and len(judged[name])
    ]


def _wrong_keys(run: Run, unresolved: Collection[str]) -> dict[str, Any]:
    """AUC of marked and of clean texts against held-out ones, and false positives by family, averaged over wrong
    keys. `clean_auc_like_length` is the control that a scheme without a mark has an AUC of one half; `clean_auc` stands
    against null texts of all lengths and may differ from one half by length alone."""
    keys = wrong_keys(run)
    if not keys:
        return {
            "n": 0,
            "why": f"key use is {run.plan.key_use}" if run.key is None else "none was asked for",
        }
    controls, alpha = read_controls(run), run.plan.config.alpha
    heldout = null_name(run.nulls[0], "heldout")
    nulls = controls[f"{heldout}.score"]
    found: dict[str, Any] = {"n": len(keys), "key_ids": [key.id for key in keys]}
    for name in (SAMPLES, CLEAN):
        if f"{name}.score" in controls:
            scores = controls[f"{name}.score"]
            tokens = controls[f"{name}.tokens"], controls[f"{heldout}.tokens"]
            found[f"{name}_auc"] = auc_over_keys(scores, nulls)
            found[f"{name}_auc_like_length"] = like_length_auc_over_keys(scores, nulls, *tokens)
    found["fpr"] = over_keys(np.mean(controls[f"{heldout}.p"] <= alpha, axis=1).tolist())
    families = [(spec.label, null_name(spec, "heldout")) for spec in run.nulls] + [(CLEAN, CLEAN), ("marked", SAMPLES)]
    found["families"] = [
        {"family": family, "fpr": false_positives_over_keys(controls[f"{name}.p"], unresolved)}
        for family, name in families
        if f"{name}.p" in controls
    ]
    return found


def _identity(run: Run) -> dict[str, Any] | None:
    """The control that an attack which does nothing changes nothing: the same texts and the same verdicts."""
    if IDENTITY not in (attack.label for attack in run.plan.attacks) or not kept_samples(run):
        return None
    before = {sample["id"]: sample["text"] for sample in kept_samples(run)}
    after = {record["id"]: record["text"] for record in attacked_texts(run, IDENTITY)}
    verdicts = [{v["id"]: v for v in read_verdicts(run, name)} for name in (SAMPLES, attacked_name(IDENTITY))]
    same = [i for i in before if after.get(i) == before[i] and verdicts[0][i] == verdicts[1][i]]
    return {"n": len(before), "unchanged": len(same)}


def _tokens_to_detect(run: Run) -> dict[str, Any] | None:
    if not lengths_of(run) or not kept_samples(run):
        return None
    return tokens_to_detect([record["p"] for record in read_lengths(run)], run.plan.config.alpha)


def _quality(run: Run) -> dict[str, Any]:
    """Log-perplexity of the kept texts, and how much it exceeds that of the clean ones: of all kept texts of both
    (the paper's difference of means), and of the prompts that both have kept."""
    judge = judge_of(run)
    if isinstance(judge, str):
        return {"judge": None, "why": judge}
    own, clean = read_quality(run), _clean_quality(run)
    found: dict[str, Any] = {"judge": judge.name, "why": None}
    if not own:
        return {**found, "why": "no text was kept"}
    found["log_perplexity"] = bootstrapped(mean, list(own.values()))
    if not clean:
        return {**found, "why": "scheme `none` is not in the same command, so there are no clean texts to compare with"}
    found["clean_log_perplexity"] = bootstrapped(mean, list(clean.values()))
    found["delta_log_perplexity"] = bootstrapped(
        lambda marked, unmarked: mean(marked) - mean(unmarked), list(own.values()), list(clean.values())
    )
    pairs = [own[i] - clean[i] for i in own if i in clean]
    found["paired_delta_log_perplexity"] = bootstrapped(mean, pairs) if pairs else None
    return found


def _clean_quality(run: Run) -> dict[str, float]:
    return read_quality(run.clean) if run.clean is not None else {}


def _all_samples(run: Run | None) -> list[Record]:
    return run.store.samples.read() if run is not None else []
