"""Two runs side by side: differences with paired bootstrap intervals on the prompts and null texts that both have.

    compare_runs(Path("runs/denmark_..."), Path("runs/dlm-kgw_..."))

Texts of one prompt, and null texts of one id, are resampled together, so that what is easy or hard for both schemes
cancels out. Runs that were calibrated on different null texts are refused unless the caller insists.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wmbench.bench.draws import prompt_id
from wmbench.bench.jsonl import JsonlFile
from wmbench.bench.measure import FEWEST_TEXTS, FPR_TARGETS, interval, target_name
from wmbench.bench.store import RunStore
from wmbench.bench.textset import SAMPLES, UNATTACKED, attacked_name
from wmbench.detection import auc, tpr_at_fpr
from wmbench.detection.intervals import percentile_interval
from wmbench.detection.paired import ResampledNegatives, drawn_counts, shares
from wmbench.errors import ConfigError, IntegrityError

Floats = npt.NDArray[np.float64]
Judged = Mapping[str, tuple[float, float]]
"""(p, ranking score) by text."""
_NULL_SEED: Final = 0
_PROMPT_SEED: Final = 1
"""Apart, so that an attack that failed on some prompts meets the same null texts."""
_RESAMPLES: Final = 1000
_NAMES: Final = ("scheme", "alg_id", "status", "backbone", "dataset", "key_id")
_NEEDED: Final = frozenset({*_NAMES, "alpha", "calibration", "cells", "nulls", "unresolved"})
"""Of metrics.json."""


@dataclass(frozen=True)
class MeasuredRun:
    """A finished run, as its files tell it."""

    folder: Path
    metrics: Mapping[str, Any]

    @classmethod
    def read(cls, folder: Path) -> MeasuredRun:
        if not folder.is_dir():
            raise ConfigError("no such run folder", where=str(folder), hint="check the folder's name")
        file = folder / "metrics.json"
        try:
            metrics = json.loads(file.read_bytes())
        except FileNotFoundError:
            hint = "finish the run, or name another one; what has no detector, such as scheme `none`, has no results"
            raise ConfigError("this folder has no results", where=str(folder), hint=hint) from None
        except (OSError, ValueError) as error:
            hint = "delete the file and run the same `wmbench run` command again"
            raise IntegrityError("the results cannot be read", where=str(file), why=str(error), hint=hint) from error
        missing = sorted(_NEEDED - set(metrics)) if isinstance(metrics, dict) else ["everything"]
        if missing:
            raise IntegrityError(
                "the results of this run are damaged",
                where=str(file),
                why=f"missing: {', '.join(missing)}",
                hint="delete the file and run the same `wmbench run` command again",
            )
        return cls(folder, metrics)

    @cached_property
    def run(self) -> Mapping[str, Any]:
        return RunStore(self.folder).read_run() or {}

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
        """(p, ranking score) by text."""
        records = JsonlFile(self.folder / "verdicts" / f"{name}.jsonl").read()
        return {record["id"]: (record["p"], record["score"]) for record in records}

    def answers(self, attack: str) -> Judged:
        """The same by prompt; a retry answers the same one."""
        found = self.verdicts(SAMPLES if attack == UNATTACKED else attacked_name(attack))
        return {prompt_id(identity): verdict for identity, verdict in found.items()}


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
    nulls_a, nulls_b = a.verdicts(a.nulls), b.verdicts(b.nulls)
    if not same_nulls:  # equal ids need not be equal texts
        nulls_b = {f"second {identity}": verdict for identity, verdict in nulls_b.items()}
    nulls = PairedNulls.of(nulls_a, nulls_b)
    cells = [_cell(a, b, attack, nulls) for attack in attacks]
    return {
        "first": _names(a),
        "second": _names(b),
        "same_nulls": same_nulls,
        "flags": [*flags, *_too_few(cells)],
        "cells": cells,
        "only_first": [attack for attack in a.attacks if attack not in attacks],
        "only_second": [attack for attack in b.attacks if attack not in attacks],
    }


@dataclass(frozen=True, eq=False)
class PairedNulls:
    """The null texts of two runs, resampled once for all attacks. Texts that both have are drawn together; when they
    share none, each side is drawn by itself."""

    scores: tuple[Floats, Floats]
    resampled: tuple[ResampledNegatives, ResampledNegatives]
    units: tuple[int, ...]
    """Texts that are drawn: pairs, or those of each side."""

    @classmethod
    def of(cls, first: Judged, second: Judged) -> PairedNulls:
        shared = _shared(first, second)
        scores = _columns(first, shared or list(first))[1], _columns(second, shared or list(second))[1]
        generator = np.random.Generator(np.random.Philox(_NULL_SEED))
        drawn = [drawn_counts(len(side), _RESAMPLES, generator) for side in scores[: 1 if shared else 2]]
        resampled = ResampledNegatives.of(scores[0], drawn[0]), ResampledNegatives.of(scores[1], drawn[-1])
        return cls(scores, resampled, tuple(len(side) for side in scores[: len(drawn)]))


def paired_detection(first: Judged, second: Judged, nulls: PairedNulls) -> dict[str, Any]:
    """Differences of AUC and of TPR at every target under both protocols, on the texts that both have."""
    shared = _shared(first, second)
    if not shared:
        return {"n": 0}
    columns = _columns(first, shared), _columns(second, shared)
    p_values, scores = [p for p, _ in columns], [score for _, score in columns]
    drawn = drawn_counts(len(shared), _RESAMPLES, np.random.Generator(np.random.Philox(_PROMPT_SEED)))
    units = len(shared), *nulls.units
    pairs, resampled = list(zip(scores, nulls.scores, strict=True)), list(zip(scores, nulls.resampled, strict=True))
    tpr = {
        target_name(target): {
            "threshold": _difference(
                [tpr_at_fpr(pos, neg, target) for pos, neg in pairs],
                [neg.tpr(pos, drawn, target) for pos, neg in resampled],
                units,
            ),
            "split": _difference(
                [float(np.mean(p <= target)) for p in p_values],
                [shares(p <= target, drawn) for p in p_values],
                units[:1],
            ),
        }
        for target in FPR_TARGETS
    }
    area = _difference([auc(*pair) for pair in pairs], [neg.auc(pos, drawn) for pos, neg in resampled], units)
    return {"n": len(shared), "n_nulls": [len(side) for side in nulls.scores], "auc": area, "tpr": tpr}


def _difference(sides: Sequence[float], resampled: Sequence[Floats], units: tuple[int, ...]) -> dict[str, Any]:
    """Both sides and their difference with an interval."""
    first, second = sides
    found = percentile_interval(first - second, resampled[0] - resampled[1], units)
    return {**interval(found), "first": first, "second": second}


def _cell(a: MeasuredRun, b: MeasuredRun, attack: str, nulls: PairedNulls) -> dict[str, Any]:
    first, second = a.answers(attack), b.answers(attack)
    same_prompt = {i for i in first if a.prompts.get(i) == b.prompts.get(i)}  # equal ids need not be equal prompts
    found = paired_detection({i: v for i, v in first.items() if i in same_prompt}, second, nulls)
    for rule, out_of_reach in (("threshold", "tied"), ("split", "unresolved")):
        for target in {*a.metrics.get(out_of_reach, ()), *b.metrics.get(out_of_reach, ())} & set(found.get("tpr", {})):
            found["tpr"][target][rule] = None  # a difference of zeros would say nothing
    return {"attack": attack, **found}


def _too_few(cells: Sequence[Mapping[str, Any]]) -> list[str]:
    fewest = min(cell["n"] for cell in cells)
    if fewest >= FEWEST_TEXTS:
        return []
    return [
        f"only {fewest} shared prompt{'s' if fewest != 1 else ''}: with fewer than {FEWEST_TEXTS} no verdict is given, "
        "since drawing from so few texts again and again shows little of how much they differ"
    ]


def _shared(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    return [identity for identity in first if identity in second]


def _columns(verdicts: Judged, ids: list[str]) -> tuple[Floats, Floats]:
    table = np.array([verdicts[i] for i in ids])
    return table[:, 0], table[:, 1]


def _different(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    names = sorted({*first, *second})
    return "; ".join(f"{n}: {first.get(n)} and {second.get(n)}" for n in names if first.get(n) != second.get(n))


def _names(run: MeasuredRun) -> dict[str, Any]:
    return {"folder": str(run.folder), **{name: run.metrics[name] for name in _NAMES}}


def _settings(run: MeasuredRun) -> dict[str, dict[str, Any]]:
    """What makes texts and verdicts differ apart from the scheme."""
    return {
        "decoding settings": run.run.get("spec", {}).get("decoding", {}),
        "filters": run.run.get("filters", {}),
        "ways to detect": {"normalise": run.metrics.get("normalise", False)},
    }


def _flags(a: MeasuredRun, b: MeasuredRun) -> list[str]:
    """What a reader must know before believing a difference."""
    flags = [
        f"the {what} differ: {a.metrics[name]} and {b.metrics[name]}"
        for name, what in (("backbone", "backbones"), ("dataset", "prompts"), ("alpha", "levels"))
        if a.metrics[name] != b.metrics[name]
    ]
    keys = {run.metrics["key_id"] for run in (a, b)} - {None}
    if len(keys) > 1:
        flags.append("the keys differ, and a key moves all texts of a scheme alike: the difference may be the keys'")
    first, second = _settings(a), _settings(b)
    flags += [f"the {w} differ: {_different(first[w], second[w])}" for w in first if first[w] != second[w]]
    if a.metrics["calibration"]["nulls"] != b.metrics["calibration"]["nulls"]:
        flags.append("the null sets differ, so thresholds and p-values stand for different things")
    return flags
