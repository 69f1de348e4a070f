"""Two runs side by side: differences with paired bootstrap intervals on the prompts and null texts that both have.

    compare_runs(Path("runs/denmark_..."), Path("runs/dlm-kgw_..."))

Texts of one prompt, and null texts of one id, are resampled together, so that what is easy or hard for both schemes
cancels out. Runs that were calibrated on different null texts are refused unless the caller insists.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wmbench.bench.draws import prompt_id
from wmbench.bench.jsonl import JsonlFile
from wmbench.bench.measure import FPR_TARGETS, interval, target_name
from wmbench.bench.textset import SAMPLES, attacked_name
from wmbench.detection import auc, bootstrap, tpr_at_fpr
from wmbench.errors import ConfigError, IntegrityError

Floats = npt.NDArray[np.float64]
Metric = Callable[[Floats, Floats], float]
Judged = Mapping[str, tuple[float, float]]
"""(p, ranking score) by text."""
_SEED: Final = 0
_RESAMPLES: Final = 1000
UNATTACKED: Final = "unattacked"


@dataclass(frozen=True)
class MeasuredRun:
    """A finished run, as its files tell it."""

    folder: Path
    metrics: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> MeasuredRun:
        try:
            metrics = json.loads((folder / "metrics.json").read_bytes())
        except (OSError, ValueError) as error:
            hint = "finish the run, or name another folder"
            raise ConfigError("this folder has no results", where=str(folder), why=str(error), hint=hint) from error
        return cls(folder, metrics)

    @property
    def attacks(self) -> list[str]:
        return [cell["attack"] for cell in self.metrics["cells"] if cell["n"]]

    @property
    def nulls(self) -> str:
        """Name of the held-out set of the null texts that calibrated."""
        names = [path.stem for path in sorted((self.folder / "verdicts").glob("heldout-*.jsonl"))]
        label = self.metrics["nulls"][0]["family"]
        if f"heldout-{label}" not in names:
            raise IntegrityError(
                "the verdicts on the null texts are missing",
                where=str(self.folder),
                hint="run the same `wmbench run` command again: it computes them",
            )
        return f"heldout-{label}"

    @cached_property
    def prompts(self) -> Mapping[str, str]:
        return {record["id"]: record["prompt"] for record in JsonlFile(self.folder / "prompts.jsonl").read()}

    def verdicts(self, name: str) -> Judged:
        """(p, ranking score) by text; retries answer the same prompt."""
        records = JsonlFile(self.folder / "verdicts" / f"{name}.jsonl").read()
        return {prompt_id(record["id"]): (record["p"], record["score"]) for record in records}


def compare_runs(first: Path, second: Path, *, any_nulls: bool = False) -> dict[str, Any]:
    """Differences first - second for every attack that both have gone through, every one with an interval.

    `flags` says what makes the two hard to compare. Different null sets are an error unless `any_nulls`; negatives
    are then resampled for each run by itself.
    """
    a, b = MeasuredRun.read(first), MeasuredRun.read(second)
    flags = _flags(a, b)
    same_nulls = a.metrics["calibration"]["nulls"] == b.metrics["calibration"]["nulls"]
    if not same_nulls and not any_nulls:
        raise ConfigError(
            "the two runs were calibrated on different null texts",
            why=_different(a.metrics["calibration"]["nulls"], b.metrics["calibration"]["nulls"]),
            hint="run both with the same --nulls, --calibration-texts and --heldout-texts, or flag the result with "
            "--different-nulls",
        )
    attacks = [attack for attack in a.attacks if attack in b.attacks]
    if not attacks:
        raise ConfigError("the two runs share no attack with texts", hint="run both with the same --attack")
    return {
        "first": _names(a),
        "second": _names(b),
        "same_nulls": same_nulls,
        "flags": flags,
        "cells": [_cell(a, b, attack, same_nulls) for attack in attacks],
        "only_first": [attack for attack in a.attacks if attack not in attacks],
        "only_second": [attack for attack in b.attacks if attack not in attacks],
    }


def paired_detection(first: Judged, second: Judged, first_nulls: Judged, second_nulls: Judged) -> dict[str, Any]:
    """Differences of AUC and of TPR at every target under both protocols, on the texts that both have. Null texts
    that both have are paired, too; when they share none, each set is resampled by itself."""
    shared, nulls = _shared(first, second), _shared(first_nulls, second_nulls)
    if not shared:
        return {"n": 0}
    (p_a, s_a), (p_b, s_b) = _columns(first, shared), _columns(second, shared)
    null_a, null_b = (_columns(side, nulls or list(side))[1] for side in (first_nulls, second_nulls))
    negatives = [np.stack([null_a, null_b], axis=1)] if nulls else [null_a, null_b]
    marked, p_values = np.stack([s_a, s_b], axis=1), np.stack([p_a, p_b], axis=1)

    def of_scores(metric: Metric) -> dict[str, Any]:
        def sides(pos: Floats, *neg: Floats) -> tuple[float, float]:
            columns = (neg[0][:, 0], neg[0][:, 1]) if nulls else neg
            return metric(pos[:, 0], columns[0]), metric(pos[:, 1], columns[1])

        return _difference(sides, marked, *negatives)

    tpr = {
        target_name(target): {
            "threshold": of_scores(partial(tpr_at_fpr, fpr=target)),
            "split": _difference(partial(_shares_below, target), p_values),
        }
        for target in FPR_TARGETS
    }
    return {"n": len(shared), "n_nulls": [len(null_a), len(null_b)], "auc": of_scores(auc), "tpr": tpr}


def _difference(sides: Callable[..., tuple[float, float]], *samples: Floats) -> dict[str, Any]:
    """Both sides and their difference with an interval; `sides` is called with resampled samples."""

    def difference(*drawn: Floats) -> float:
        first, second = sides(*drawn)
        return first - second

    first, second = sides(*samples)
    found = bootstrap(difference, *samples, seed=_SEED, resamples=_RESAMPLES)
    return {**interval(found), "first": first, "second": second}


def _shares_below(target: float, p_values: Floats) -> tuple[float, float]:
    shares = np.mean(p_values <= target, axis=0)
    return float(shares[0]), float(shares[1])


def _cell(a: MeasuredRun, b: MeasuredRun, attack: str, same_nulls: bool) -> dict[str, Any]:
    name = SAMPLES if attack == UNATTACKED else attacked_name(attack)
    nulls_a, nulls_b = a.verdicts(a.nulls), b.verdicts(b.nulls)
    if not same_nulls:  # equal ids need not be equal texts
        nulls_b = {f"second {identity}": verdict for identity, verdict in nulls_b.items()}
    first, second = a.verdicts(name), b.verdicts(name)
    same_prompt = {i for i in first if a.prompts.get(i) == b.prompts.get(i)}  # equal ids need not be equal prompts
    found = paired_detection({i: v for i, v in first.items() if i in same_prompt}, second, nulls_a, nulls_b)
    for target in {*a.metrics["unresolved"], *b.metrics["unresolved"]} & set(found.get("tpr", {})):
        found["tpr"][target] = {"threshold": None, "split": None}  # a difference of zeros would say nothing
    return {"attack": attack, **found}


def _shared(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    return [identity for identity in first if identity in second]


def _columns(verdicts: Judged, ids: list[str]) -> tuple[Floats, Floats]:
    table = np.array([verdicts[i] for i in ids])
    return table[:, 0], table[:, 1]


def _different(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    names = sorted({*first, *second})
    return "; ".join(f"{n}: {first.get(n)} and {second.get(n)}" for n in names if first.get(n) != second.get(n))


def _names(run: MeasuredRun) -> dict[str, Any]:
    fields = ("scheme", "alg_id", "status", "backbone", "dataset", "key_id")
    return {"folder": str(run.folder), **{name: run.metrics[name] for name in fields}}


def _flags(a: MeasuredRun, b: MeasuredRun) -> list[str]:
    """What a reader must know before believing a difference."""
    flags = [
        f"the {what} differ: {a.metrics[name]} and {b.metrics[name]}"
        for name, what in (("backbone", "backbones"), ("dataset", "prompts"), ("alpha", "levels"))
        if a.metrics[name] != b.metrics[name]
    ]
    if a.metrics["calibration"]["nulls"] != b.metrics["calibration"]["nulls"]:
        flags.append("the null sets differ, so thresholds and p-values stand for different things")
    return flags
