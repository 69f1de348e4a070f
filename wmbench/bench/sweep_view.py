"""A sweep for the eye: a table for the terminal, charts for the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from wmbench.bench.sweep import flat_rows
from wmbench.plots import Spec, axis, rows

_MEASURES: Final = {"tpr_0.01": "TPR at 1% FPR", "auc": "AUC", "rows_per_token": "rows forwarded per token"}


def print_sweep(result: Mapping[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=128)
    names = _names(result)
    title = f"{result['scheme']} on {result['backbone']}: {result['sweep']}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in (*names, "dataset", "attack"):
        table.add_column(name.removeprefix("decoding."), overflow="fold")
    for name in ("n", "TPR at 1% FPR", "AUC", "rows/token", "same tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in flat_rows(result):
        same = row["same_tokens"]
        table.add_row(
            *(row[name] for name in names),
            row["dataset"],
            row["attack"],
            str(row["n"]),
            _interval(row, "tpr_0.01", 2),
            _interval(row, "auc", 3),
            f"{row['rows_per_token']:.2f}",
            "n/a" if same is None else f"{same:.0%}",
        )
    console.print(table)
    console.print("Rates with 95% intervals, threshold rule. same tokens: as in the first point.", style="dim")


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
    lines = {"mark": {"type": "line", "point": True}, "encoding": {"x": x, "y": y, "color": colour}}
    bars = {
        "mark": {"type": "rule", "opacity": 0.4},
        "encoding": {"x": x, "y": axis(f"{name}_low", title), "y2": {"field": f"{name}_high"}, "color": colour},
    }
    layers = [lines] if measure == "rows_per_token" else [lines, bars]
    return {
        "data": rows(points),
        "facet": {"column": {"field": "line", "type": "nominal", "title": None}},
        "spec": {"width": 320, "height": 220, "layer": layers},
    }


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
