"""Stage 10: metrics.json, every rate with its n and an interval, and what the rates stand on."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from wmbench.bench.derived import digest
from wmbench.bench.disk import pretty_json
from wmbench.bench.measure import (
    FPR_TARGETS,
    Judged,
    auc_interval,
    detection,
    false_positives,
    over_keys,
    rate,
    target_name,
)
from wmbench.bench.stages.base import Run, Tally
from wmbench.bench.stages.calibrate import read_calibration
from wmbench.bench.stages.controls import FILE as CONTROLS
from wmbench.bench.stages.controls import read_controls, wrong_keys
from wmbench.bench.stages.detect import judged_sets, read_verdicts, verdict_file
from wmbench.bench.stages.filter import drop_counts
from wmbench.bench.stages.score import null_name
from wmbench.bench.textset import CLEAN, SAMPLES, attacked_name, attacked_texts, kept_samples
from wmbench.detection import auc

FILE = "metrics.json"
SCHEMA_VERSION = 1
UNATTACKED = "unattacked"


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
        derived = run.store.derived
        names = [verdict_file(scored.name) for scored in judged_sets(run)]
        names += [CONTROLS] if wrong_keys(run) else []
        attacks = [attack.label for attack in run.plan.attacks]
        return digest(
            [SCHEMA_VERSION, attacks, {name: derived.content_digest(name) for name in ["filter.jsonl", *names]}]
        )


def metrics(run: Run) -> dict[str, Any]:
    assert run.detector is not None
    plan, calibration = run.plan, read_calibration(run)
    judged = {scored.name: Judged.of(read_verdicts(run, scored.name)) for scored in judged_sets(run)}
    heldout = judged[null_name(run.nulls[0], "heldout")]
    views = run.detector.probe(run.key)
    refusals = {target_name(t): run.detector.unresolved(views, calibration.n0, t) for t in FPR_TARGETS}
    unresolved = {t: {"why": error.message, "hint": error.hint} for t, error in refusals.items() if error}
    return {
        "schema_version": SCHEMA_VERSION,
        "scheme": plan.scheme.label,
        "alg_id": plan.scheme.info.alg_id,
        "status": plan.scheme.info.status,
        "backbone": plan.backbone.label,
        "dataset": plan.dataset.label,
        "key_id": run.identity["key_id"],
        "alpha": plan.config.alpha,
        "samples": {"total": len(run.samples), "kept": len(kept_samples(run)), "dropped": drop_counts(run)},
        "calibration": {"n": calibration.n0, "views": len(calibration.views), "nulls": run.nulls[0].identity},
        "unresolved": unresolved,
        "cells": [_cell(run, label, judged, unresolved) for label in (None, *(a.label for a in plan.attacks))],
        "nulls": _families(run, judged, unresolved),
        "clean_auc": auc_interval(judged[CLEAN], heldout) if CLEAN in judged else None,
        "wrong_keys": _wrong_keys(run),
    }


def _cell(run: Run, label: str | None, judged: dict[str, Judged], unresolved: Collection[str]) -> dict[str, Any]:
    """One attack (None: no attack). A cell without texts has n = 0 and no rates."""
    name = SAMPLES if label is None else attacked_name(label)
    failed = len(kept_samples(run)) - len(attacked_texts(run, label)) if label is not None else 0
    cell: dict[str, Any] = {"attack": label or UNATTACKED, "failed": failed, "n": 0}
    if name not in judged:
        return cell
    found, heldout = judged[name], judged[null_name(run.nulls[0], "heldout")]
    return {**cell, **detection(found, heldout, unresolved), "detected": rate(found.p <= run.plan.config.alpha)}


def _families(run: Run, judged: dict[str, Judged], unresolved: Collection[str]) -> list[dict[str, Any]]:
    """False positives by null family; the first is the held-out half of what calibrated."""
    families = {spec.label: judged[null_name(spec, "heldout")] for spec in run.nulls}
    if CLEAN in judged:
        families[CLEAN] = judged[CLEAN]
    return [{"family": name, **false_positives(negatives, unresolved)} for name, negatives in families.items()]


def _wrong_keys(run: Run) -> dict[str, Any]:
    """AUC of marked and of clean texts against held-out ones, and the FPR of those, averaged over wrong keys."""
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
            pairs = zip(controls[f"{name}.score"], nulls, strict=True)
            found[f"{name}_auc"] = over_keys([auc(scores, null) for scores, null in pairs])
    found["fpr"] = over_keys(np.mean(controls[f"{heldout}.p"] <= alpha, axis=1).tolist())
    return found
