"""What the charts of a report are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from wmbench.report.document import Document, RunReport
from wmbench.report.palette import PALETTE
from wmbench.report.rates import Rate

SHARE: Final = alt.Scale(domain=[0, 1])
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Chart:
    """A chart, and in words what it shows."""

    name: str
    title: str
    caption: str
    spec: dict[str, Any] | None
    """None: the runs have no figures for it, and the caption says so."""


def where(run: RunReport) -> dict[str, str]:
    return {"scheme": run.scheme, "group": run.group}


def fields(rate: Rate) -> dict[str, Any]:
    return {"estimate": rate.estimate, "low": rate.low, "high": rate.high, "n": rate.n[0] if rate.n else None}


def percent(target: str) -> str:
    return f"{100 * float(target):g}%"


def colour(
    document: Document, *, with_legend: bool = True, symbol: str = "circle", shown: Sequence[str] | None = None
) -> alt.Color:
    """`shown`: schemes that have a place in the legend, by default all that were measured."""
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(document.schemes))]
    named = list(dict.fromkeys(run.scheme for run in document.measured)) if shown is None else list(shown)
    legend = alt.Legend(values=named, symbolOpacity=1, symbolStrokeWidth=2, symbolType=symbol) if with_legend else None
    scale = alt.Scale(domain=document.schemes, range=colours)
    return alt.Color("scheme:N", scale=scale, title=None, legend=legend)


def tooltips(*fields: str) -> list[alt.Tooltip]:
    kinds = {"n": "Q", "tokens": "Q", "strength": "Q"}
    rates = [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("estimate", "low", "high")]
    return [*(alt.Tooltip(f"{name}:{kinds.get(name, 'N')}") for name in fields), *rates]


def select(name: str, options: Sequence[str], label: str, chosen: str) -> alt.Parameter:
    return alt.param(name=name, value=chosen, bind=alt.binding_select(options=list(options), name=f"{label} "))


def filtered(chart: Any, document: Document, parameter: alt.Parameter | None, condition: str) -> Any:
    """Only what the reader has chosen; of several groups one at a time."""
    made = chart.add_params(parameter).transform_filter(condition) if parameter is not None else chart
    if len(document.groups) > 1:
        group = select("group", document.groups, "Model and prompts", document.groups[0])
        made = made.add_params(group).transform_filter("datum.group === group")
    return made


def by_attack(chart: Any, document: Document) -> Any:
    attacks = document.attacks
    if len(attacks) < 2:
        return by_group(chart, document)
    return filtered(chart, document, select("attack", attacks, "Attack", attacks[0]), "datum.attack === attack")


def by_group(chart: Any, document: Document) -> Any:
    return filtered(chart, document, None, "")


def fpr_axis_end(rows: Iterable[dict[str, Any]]) -> float:
    """An interval of a few texts goes up to 70%: the axis ends where the estimates and the level can be read."""
    return max((max(4 * row["target"], 1.25 * row["estimate"]) for row in rows), default=1.0)


def finished(name: str, title: str, caption: str, chart: Any, height: int = 250) -> Chart:
    """`height` in pixels is the plot's alone; the width is whatever the page has."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    words = f"{title}. {caption}"
    spec = chart.properties(width="container", height=height, autosize=fit, description=words).to_dict()
    spec.pop("config", None)  # Altair's own default; the page has its own
    return Chart(name, title, caption, spec)


def missing(name: str, title: str, why: str) -> Chart:
    return Chart(name, title, why, None)
