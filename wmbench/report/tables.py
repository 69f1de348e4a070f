"""A report as CSV: one line per scheme and attack."""

from __future__ import annotations

import csv
import io
from typing import Any

from wmbench.bench.textset import UNATTACKED
from wmbench.report.document import RULES, TARGETS, Cell, Document, RunReport
from wmbench.report.rates import Rate


def csv_table(document: Document) -> str:
    rows = [_row(run, cell) for run in document.measured for cell in run.cells]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else ["scheme"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _row(run: RunReport, cell: Cell) -> dict[str, Any]:
    row: dict[str, Any] = {
        "scheme": run.scheme,
        "backbone": run.backbone,
        "dataset": run.dataset,
        "attack": cell.attack,
        "strength": cell.strength,
        "n": cell.n,
        "failed": cell.failed,
    }
    for target in TARGETS:
        for rule in RULES:
            row |= _figures(f"tpr_{target}_{rule}", cell.rate(target, rule))
        row[f"tpr_{target}_paper"] = cell.paper.get(target)
    row |= _figures("auc", cell.auc)
    row["auc_paper"] = cell.paper.get("auc")
    row |= {"alpha": run.alpha, **_figures("detected", cell.detected)}
    attacked = None if cell.attack == UNATTACKED else cell.attack
    family = next((family for family in run.families if family.attack == attacked), None)
    row["fpr_n"] = family.n if family else None
    for target in TARGETS:
        row |= _figures(f"fpr_{target}", family.fpr.get(target) if family else None)
    return row | {"key_id": run.key_id, "nulls": run.nulls.digest if run.nulls else None, "run": run.name}


def _figures(name: str, rate: Rate | None) -> dict[str, float | None]:
    """Empty where the figure is out of reach: a zero would look like a measurement."""
    return {
        name: rate.estimate if rate else None,
        f"{name}_low": rate.low if rate else None,
        f"{name}_high": rate.high if rate else None,
    }
