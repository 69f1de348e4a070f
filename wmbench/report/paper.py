"""The paper's reported figures, for the cells that a report also has.

`paper_tables.json` beside this file is a list of records {table, scheme, backbone, dataset, attack, metric, value},
with TPR in percent, as the paper prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

_METRICS: Final = {"tpr@0.5%": "0.005", "tpr@1%": "0.01", "tpr@5%": "0.05", "auc": "auc"}
Key = tuple[str, ...]


def paper_figures(scheme: str, backbone: str, dataset: str, attack: str) -> dict[str, float]:
    """`auc`, and TPR as a share by false-positive rate; empty when the paper has no such cell."""
    return _by_cell().get(_key((scheme, backbone, dataset, attack)), {})


@cache
def _by_cell() -> dict[Key, dict[str, float]]:
    return by_cell(json.loads(files("wmbench.report").joinpath("paper_tables.json").read_text(encoding="utf-8")))


def by_cell(records: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, float]]:
    """Detection figures by cell. The first table that has a figure counts: main tables stand before ablations."""
    found: dict[Key, dict[str, float]] = {}
    for record in records:
        if record["metric"] in _METRICS and record["value"] is not None:
            cell = found.setdefault(_key(record[part] for part in ("scheme", "backbone", "dataset", "attack")), {})
            scale = 1.0 if record["metric"] == "auc" else 100.0
            cell.setdefault(_METRICS[record["metric"]], record["value"] / scale)
    return found


def _key(parts: Iterable[str]) -> Key:
    """Folders and tables spell names differently: `dlm_kgw`, `dlm-kgw`."""
    return tuple(re.sub(r"[^a-z0-9.]", "", part.lower()) for part in parts)
