"""A sweep for the eye: a table for the terminal, charts for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wmbench.bench.sweep import flat_rows
from wmbench.console import open_console
from wmbench.plots import Spec, axis, rows

_FIGURES: Final = ("n", "TPR at 1% FPR", "AUC", "rows/token", "same tokens")
LEGEND: Final = "Rates with 95% intervals, threshold rule. same tokens: as in the first point."
_NARROWEST_AXIS: Final = 0.05
_MEASURES: Final = {"tpr_0.01": "TPR at 1% FPR", "auc": "AUC", "rows_per_token": "rows forwarded per token"}


def print_sweep(result: Mapping[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    console = open_console(128)
    title = f"{result['scheme']} on {result['backbone']}: {result['sweep']}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    headings, lines = table_of_points(result)
    for name in headings[: -len(_FIGURES)]:
        table.add_column(name, overflow="fold")
    for name in _FIGURES:
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(*line)
    console.print(table)
    console.print(LEGEND, style="dim")


def table_of_points(result: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Headings, and a line for every point and attack: settings first, the figures last."""
    names = _names(result)
    headings = [*(name.removeprefix("decoding.") for name in names), "dataset", "attack", *_FIGURES]
    lines = []
    for row in flat_rows(result):
        same = row["same_tokens"]
        figures = [
            str(row["n"]),
            _interval(row, "tpr_0.01", 2),
            _interval(row, "auc", 3),
            f"{row['rows_per_token']:.2f}",
            "n/a" if same is None else f"{same:.0%}",
        ]
        lines.append([*(row[name] for name in names), row["dataset"], row["attack"], *figures])
    return headings, lines


def charts(result: Mapping[str, Any]) -> list[Spec]:
    """One chart per measure: the first axis from left to right, the others as rows of charts, attacks as colours."""
    table = list(flat_rows(result))
    if not table:
        return []
    groups = [", ".join(names) for names in result["axes"]]
    data = []
    for row in table:
        positions = {group: ", ".join(row[n] for n in group.split(", ")) for group in groups}
        data.append({"x": _number(positions[groups[0]]), "rest": _rest(positions, groups), **row})
    kind = "quantitative" if all(isinstance(row["x"], float) for row in data) else "ordinal"
    return [_chart(data, measure, title, groups[0], kind) for measure, title in _MEASURES.items()]


def _chart(data: Sequence[Mapping[str, Any]], measure: str, title: str, x_title: str, kind: str) -> dict[str, Any]:
    name = measure.replace(".", "_")  # a dot in a field name is a path in Vega
    points = [
        {
            "x": str(row["x"]) if kind == "ordinal" else row["x"],
            "line": f"{row['dataset']} {row['rest']}".strip(),
            "attack": row["attack"],
            **{f"{name}{end}": row.get(f"{measure}{end}") for end in ("", "_low", "_high")},
        }
        for row in data
        if row.get(measure) is not None
    ]
    x, colour = axis("x", x_title, kind), {"field": "attack", "type": "nominal"}
    y = axis(name, title, zero=measure == "rows_per_token")
    if measure != "rows_per_token":
        y["scale"] = {"domain": _wide_enough(points, name), "nice": False}
    lines = {"mark": {"type": "line", "point": True}, "encoding": {"x": x, "y": y, "color": colour}}
    bars = {
        "mark": {"type": "rule", "opacity": 0.4},
        "encoding": {"x": x, "y": axis(f"{name}_low", title), "y2": {"field": f"{name}_high"}, "color": colour},
    }
    layers = [lines] if measure == "rows_per_token" else [lines, bars]
    return {
        "data": rows(points),
        "facet": {"field": "line", "type": "nominal", "title": None},
        "columns": 1,
        "spec": {"width": 320, "height": 220, "layer": layers},
    }


def _wide_enough(points: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    """An axis of a rate that does not blow up differences of a thousandth."""
    low = min((point[f"{name}_low"] for point in points), default=0.0)
    high = max((point[f"{name}_high"] for point in points), default=1.0)
    missing = max(0.0, _NARROWEST_AXIS - (high - low)) / 2
    low = max(0.0, min(low - missing, 1.0 - _NARROWEST_AXIS))
    return [low, min(1.0, max(high + missing, low + _NARROWEST_AXIS))]


def _names(result: Mapping[str, Any]) -> list[str]:
    return [name for names in result["axes"] for name in names]


def _rest(positions: Mapping[str, str], groups: Sequence[str]) -> str:
    return "; ".join(f"{group} = {positions[group]}" for group in groups[1:])


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _interval(row: Mapping[str, Any], name: str, digits: int) -> str:
    if row.get(name) is None:
        return "n/a"
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
