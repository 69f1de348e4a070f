"""From run folders to one document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from pydantic import ValidationError

from wmbench import __version__
from wmbench.bench.cost import cost_per_token, seconds_per_token
from wmbench.bench.derived import digest
from wmbench.bench.textset import SAMPLES
from wmbench.errors import IntegrityError
from wmbench.report.command import commands
from wmbench.report.curves import by_length, low_roc
from wmbench.report.document import Cell, Document, NullSet, RunReport
from wmbench.report.folders import METRICS, RunFolder, find_runs, left_out, set_name
from wmbench.report.notes import notices, told_apart, warnings
from wmbench.report.paper import paper_figures
from wmbench.report.rates import Rate
from wmbench.report.texts import examples, illuminator

if TYPE_CHECKING:
    from wmbench.host import Host

TEXTS: Final = 6
"""Prompts of each run whose texts are shown."""
_SHOWN: Final = frozenset(RunReport.model_fields) | {"schema_version", "status", "normalise"}
"""Fields of metrics.json that have their place; what else it says is listed as further figures."""


def gather(
    arguments: Iterable[str | Path], *, texts: int = TEXTS, host: Host | None = None, key: str | None = None
) -> Document:
    """Everything that a report shows. With `host` the texts get their evidence, if the key of the run is at hand."""
    arguments = list(arguments)
    folders = find_runs(arguments)
    controls = {_origin(folder): folder for folder in folders if folder.is_control}
    runs = []
    for folder, command in zip(folders, commands([folder.run for folder in folders]), strict=True):
        if folder.is_control:
            runs.append(_control(folder, command))
        else:
            runs.append(_measured(folder, controls.get(_origin(folder)), texts, host, key, command))
    runs, repeated = told_apart(runs)
    found = [*left_out(arguments), *repeated, *warnings(runs)]
    return Document(wmbench=__version__, notices=notices(runs), warnings=found, runs=runs)


def _measured(
    folder: RunFolder, control: RunFolder | None, texts: int, host: Host | None, key: str | None, command: str
) -> RunReport:
    metrics = folder.metrics
    try:
        cells = [_cell(folder, cell) for cell in metrics["cells"]]
        attacks = [cell.attack for cell in cells]
        light, no_evidence = illuminator(folder, host, key) if texts else (None, "")
        return RunReport.model_validate(
            {
                **{name: metrics[name] for name in ("scheme", "backbone", "dataset")},
                **{name: metrics.get(name) for name in ("alg_id", "key_id", "alpha", "samples", "calibration")},
                "caveat": metrics.get("status") or "",
                "nulls": _null_set(metrics),
                "unresolved": metrics.get("unresolved", {}),
                "tied": metrics.get("tied", {}),
                "cells": cells,
                "families": metrics.get("nulls", []),
                "clean_auc": metrics.get("clean_auc"),
                "wrong_keys": metrics.get("wrong_keys") or {},
                "quality": _rates(metrics.get("quality")),
                "judge": (metrics.get("quality") or {}).get("judge"),
                "no_quality": (metrics.get("quality") or {}).get("why") or "",
                "tokens_to_detect": metrics.get("tokens_to_detect"),
                "cost": _cost(folder, metrics.get("cost")),
                "more": {name: value for name, value in metrics.items() if name not in _SHOWN},
                "examples": examples(folder, control, attacks, texts, light),
                "no_evidence": no_evidence,
                **_provenance(folder, command),
            }
        )
    except (KeyError, TypeError, ValidationError) as error:
        why = f"{type(error).__name__}: {error}"
        raise IntegrityError(
            "the results of this run are damaged", where=str(folder.path / METRICS), why=why, hint=_AGAIN
        ) from error


_AGAIN: Final = "delete metrics.json and run the same command again: it is computed anew"


def _control(folder: RunFolder, command: str) -> RunReport:
    spec, parts = folder.run["spec"], folder.path.name.split("_")
    return RunReport.model_validate(
        {
            "scheme": folder.run["scheme"]["name"],
            "alg_id": folder.run["scheme"]["alg_id"],
            "backbone": spec["backbone"]["name"] if len(parts) != 4 else parts[1],
            "dataset": "" if len(parts) != 4 else parts[2],
            "is_control": True,
            "cost": _cost(folder, None),
            "samples": {
                "total": sum(folder.run.get("dropped", {}).values()) + len(folder.samples),
                "kept": len(folder.samples),
                "dropped": folder.run.get("dropped", {}),
            },
            **_provenance(folder, command),
        }
    )


def _provenance(folder: RunFolder, command: str) -> dict[str, Any]:
    run = folder.run
    spec = run.get("spec", {})
    return {
        "name": folder.path.resolve().name,
        "command": command,
        "key_use": run.get("scheme", {}).get("key_use", "secret"),
        "settings": {
            "scheme": spec.get("scheme", {}).get("settings", {}),
            "decoding": spec.get("decoding", {}),
            "backbone": spec.get("backbone", {}).get("settings", {}),
            "filters": run.get("filters", {}),
            "seed": spec.get("seed"),
            "normalise": folder.metrics.get("normalise", False) if not folder.is_control else False,
        },
        "approximations": run.get("scheme", {}).get("approximations") or {},
        "versions": run.get("versions", {}),
        "platform": run.get("platform", {}),
        "fingerprints": run.get("fingerprints", {}),
    }


def _cell(folder: RunFolder, cell: dict[str, Any]) -> Cell:
    """A cell of metrics.json with its curves and the paper's figures."""
    metrics, name = folder.metrics, set_name(cell["attack"])
    found, nulls = folder.verdicts(name), folder.verdicts(folder.heldout)
    described = folder.run.get("attacks", {}).get(cell["attack"], {})
    # The paper knows an attack by its name; the label has a hash when it asks another endpoint or model.
    attack = described.get("name", cell["attack"])
    more: dict[str, Any] = {
        "paper": paper_figures(metrics["scheme"], metrics["backbone"], metrics["dataset"], attack),
        "strength": described.get("strength"),
        "curve": described.get("curve"),
    }
    if found and nulls:
        more["roc"] = low_roc(_column(found, "score"), _column(nulls, "score"))
    tokens = folder.lengths(name)
    after = (metrics.get("tokens_to_detect") or {}).get("detected_after")
    if name == SAMPLES and after:  # the same texts cut shorter say more than texts that happen to be shorter
        more["by_length"] = [{"tokens": int(tokens), "detected": after[tokens]} for tokens in sorted(after, key=int)]
    elif tokens is not None and len(tokens) == len(found):
        more["by_length"] = by_length(tokens, np.array(_column(found, "p")) <= metrics["alpha"])
    return Cell.model_validate({**cell, **more})


def _cost(folder: RunFolder, counted: dict[str, Any] | None) -> dict[str, Any]:
    """As metrics.json has it; a control has no metrics, so its tokens are counted here."""
    timed = seconds_per_token(folder.path)
    found = counted or cost_per_token(folder.store.samples.read())
    return {**found, "seconds": timed["seconds_per_token"] if timed else None}


def _column(verdicts: dict[str, Any], name: str) -> list[float]:
    return [verdict[name] for verdict in verdicts.values()]


def _null_set(metrics: dict[str, Any]) -> NullSet | None:
    identity = metrics.get("calibration", {}).get("nulls")
    return NullSet(digest=digest(identity), identity=identity) if identity else None


def _rates(figures: Any) -> dict[str, Rate]:
    found = {name: _rate(value) for name, value in figures.items()} if isinstance(figures, dict) else {}
    return {name: rate for name, rate in found.items() if rate is not None}


def _rate(value: Any) -> Rate | None:
    """A figure with an interval; anything else is shown under `more` by whoever wrote it."""
    return Rate.model_validate(value) if isinstance(value, dict) and {"estimate", "low", "high"} <= set(value) else None


def _origin(folder: RunFolder) -> tuple[Any, ...]:
    """Clean and marked texts of the same model answer the same prompts."""
    prints: Sequence[str] = sorted(folder.run.get("fingerprints", {}).items())
    return tuple(prints)
