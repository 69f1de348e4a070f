"""A sweep for the eye: a table for the terminal, charts for the page."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wmbench.bench.sweep import flat_rows
from wmbench.bench.textset import UNATTACKED
from wmbench.console import open_console
from wmbench.plots import Spec, axis, rows

_FIGURES: Final = ("n", "TPR at 1% FPR", "AUC", "price, nats", "rows/token", "same tokens")
LEGEND: Final = (
    "Rates with 95% intervals, threshold rule. price: mean log-perplexity less that of clean texts. "
    "same tokens: as in the first point."
)
_NARROWEST_AXIS: Final = 0.05
_WIDEST_WORD: Final = 15
"""Letters of a heading in one line of the terminal."""
_RATES: Final = {"tpr_0.01": "TPR at 1% FPR", "auc": "AUC"}
_OF_POINTS: Final = {"price": "price in nats per token", "rows_per_token": "rows forwarded per token"}
"""Measures that do not depend on the attack."""


def print_sweep(result: Mapping[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    console = open_console(150)
    title = f"{result['scheme']} on {result['backbone']}: {result['sweep']}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    headings, lines = table_of_points(result)
    for name in headings[: -len(_FIGURES)]:
        table.add_column(_broken(name), overflow="fold")
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
        same, is_attacked = row["same_tokens"], row["attack"] != UNATTACKED
        figures = [
            str(row["n"]),
            _interval(row, "tpr_0.01", ".2f"),
            _interval(row, "auc", ".3f"),
            "" if is_attacked else _interval(row, "price", "+.2f"),
            f"{row['rows_per_token']:.2f}",
            "n/a" if same is None else f"{same:.0%}",
        ]
        lines.append([*(row[name] for name in names), row["dataset"], row["attack"], *figures])
    return headings, lines


def charts(result: Mapping[str, Any]) -> list[Spec]:
    """One chart per measure that has values: the first axis from left to right, the others as rows of charts, attacks
    as colours."""
    table = list(flat_rows(result))
    if not table:
        return []
    groups = [", ".join(names) for names in result["axes"]]
    data = []
    for row in table:
        positions = {group: ", ".join(row[n] for n in group.split(", ")) for group in groups}
        data.append({"x": _number(positions[groups[0]]), "rest": _rest(positions, groups), **row})
    kind = "quantitative" if all(isinstance(row["x"], float) for row in data) else "ordinal"
    answers = [row for row in data if row["attack"] == UNATTACKED]
    drawn = [_chart(data, measure, title, groups[0], kind) for measure, title in _RATES.items()]
    drawn += [_chart(answers, measure, title, groups[0], kind) for measure, title in _OF_POINTS.items()]
    return [chart for chart in drawn if chart["data"]["values"]]


def _chart(data: Sequence[Mapping[str, Any]], measure: str, title: str, x_title: str, kind: str) -> dict[str, Any]:
    name = measure.replace(".", "_")  # a dot in a field name is a path in Vega
    points = [
        {
            "x": str(row["x"]) if kind == "ordinal" else row["x"],
            "line": f"{row['dataset']} {row['rest']}".strip(),
            "attack": row["attack"],
            **{f"{name}{end}": row[f"{measure}{end}"] for end in ("", "_low", "_high") if f"{measure}{end}" in row},
        }
        for row in data
        if row.get(measure) is not None
    ]
    x, y = axis("x", x_title, kind), axis(name, title, zero=measure == "rows_per_token")
    if kind == "quantitative":
        x["scale"]["padding"] = 10  # intervals at either end stay clear of the axis
    if measure in _RATES:
        y["scale"] = {"domain": _wide_enough(points, name), "nice": False}
    colour = {"color": {"field": "attack", "type": "nominal"}} if measure in _RATES else {}
    layers = [{"mark": {"type": "line", "point": True}, "encoding": {"x": x, "y": y, **colour}}]
    if any(f"{name}_low" in point for point in points):
        ends = {"y": axis(f"{name}_low", title), "y2": {"field": f"{name}_high"}}
        layers.append({"mark": {"type": "rule", "opacity": 0.4}, "encoding": {"x": x, **ends, **colour}})
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


def _broken(name: str) -> str:
    """The name of a setting in lines that end between its words."""
    return "\n".join(textwrap.wrap(name.replace("_", "-"), _WIDEST_WORD)).replace("-", "_")


def _interval(row: Mapping[str, Any], name: str, digits: str) -> str:
    if row.get(name) is None:
        return "n/a"
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return f"{row[name]:{digits}} [{low:{digits}}, {high:{digits}}]"
