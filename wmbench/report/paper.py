"""The paper's reported figures, for the cells that a report also has.

`paper_tables.yaml` beside this file is a list of records {table, scheme, backbone, dataset, attack, metric, value}.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from wmbench.report.document import TARGETS, UNATTACKED

FILE: Final = "paper_tables.yaml"
_SAME_ATTACK: Final = {"clean": UNATTACKED, "none": UNATTACKED}
_PARTS: Final = ("scheme", "backbone", "dataset", "attack")
Key = tuple[str, str, str, str]


def paper_figures(scheme: str, backbone: str, dataset: str, attack: str) -> dict[str, float]:
    """`auc`, and TPR as a share by false-positive rate; empty when the paper has no such cell."""
    return _by_cell().get(_key(scheme, backbone, dataset, attack), {})


@cache
def _by_cell() -> dict[Key, dict[str, float]]:
    import yaml

    file = files("wmbench.report").joinpath(FILE)
    return by_cell(yaml.safe_load(file.read_text(encoding="utf-8"))) if file.is_file() else {}


def by_cell(records: Iterable[Mapping[str, Any]]) -> dict[Key, dict[str, float]]:
    """Detection figures by cell. The first table that has a figure counts: main tables stand before ablations."""
    figures = [(record, _metric(str(record["metric"]))) for record in records if record.get("value") is not None]
    rates = [float(record["value"]) for record, name in figures if name not in (None, "auc")]
    scale = 100.0 if max(rates, default=0.0) > 1.0 else 1.0  # TPR may be written in percent, as the paper prints it
    found: dict[Key, dict[str, float]] = {}
    for record, name in figures:
        if name is not None:
            cell = found.setdefault(_key(*(record.get(part) or "" for part in _PARTS)), {})
            cell.setdefault(name, float(record["value"]) / (1.0 if name == "auc" else scale))
    return found


def _metric(name: str) -> str | None:
    """`auc` or a false-positive rate; `tpr@1`, `TPR@1%FPR` and `tpr_0.01` mean the same."""
    if name.lower() == "auc":
        return "auc"
    number = re.fullmatch(r"tpr[@_ ]?(?:at )?([\d.]+)\s*%?.*", name.lower())
    if number is None:
        return None
    rate = float(number[1])
    return next((target for target in TARGETS if rate in (float(target), round(100 * float(target), 3))), None)


def _key(scheme: str, backbone: str, dataset: str, attack: str) -> Key:
    plain = [re.sub(r"[^a-z0-9.]", "", part.lower()) for part in (scheme, backbone, dataset, attack)]
    return plain[0], plain[1], plain[2], _SAME_ATTACK.get(plain[3], plain[3])
