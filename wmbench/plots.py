"""Vega-Lite charts as plain dictionaries.

Only drawing them needs the extra `report`. Without it a result has its table and its JSON, and a note says that there
is no plot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Spec = Mapping[str, Any]

HINT = "no plot was drawn: pip install 'wmbench[report]'"


def rows(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Inline data."""
    return {"values": [dict(value) for value in values]}


def axis(name: str, title: str, kind: str = "quantitative", *, zero: bool = False) -> dict[str, Any]:
    """The encoding of one field. `ordinal` fields keep the order of the data."""
    encoded: dict[str, Any] = {"field": name, "type": kind, "title": title}
    return {**encoded, "sort": None} if kind == "ordinal" else {**encoded, "scale": {"zero": zero}}


def curve_with_band(
    thin: Sequence[Mapping[str, Any]], mean: Sequence[Mapping[str, Any]], x_title: str, y_title: str
) -> dict[str, Any]:
    """Thin curves (x, y, curve), a thick mean (x, y) and its interval (low, high)."""
    x, y = axis("x", x_title), axis("y", y_title)
    return {
        "width": 560,
        "height": 320,
        "layer": [
            {
                "data": rows(thin),
                "mark": {"type": "line", "strokeWidth": 0.5, "opacity": 0.35, "color": "gray"},
                "encoding": {"x": x, "y": y, "detail": {"field": "curve"}},
            },
            {
                "data": rows(mean),
                "mark": {"type": "area", "opacity": 0.25},
                "encoding": {"x": x, "y": axis("low", y_title), "y2": {"field": "high"}},
            },
            {"data": rows(mean), "mark": {"type": "line", "strokeWidth": 3}, "encoding": {"x": x, "y": y}},
        ],
    }
