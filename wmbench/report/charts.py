"""The charts of a report as Vega-Lite specifications, made with Altair. Colours of axes and text are the page's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from wmbench.report.curves import HIGHEST_FPR
from wmbench.report.document import TARGETS, UNATTACKED, Document, Rate, RunReport
from wmbench.report.palette import PALETTE

QUALITY: Final = "delta_log_perplexity"
_COUNTS: Final = ("forward_tokens", "forward_rows", "head_rows", "steps")
_SHARE: Final = alt.Scale(domain=[0, 1])
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Chart:
    """A chart, and in words what it shows."""

    name: str
    title: str
    caption: str
    spec: dict[str, Any] | None
    """None: the runs have no figures for it, and the caption says so."""


def charts(document: Document) -> list[Chart]:
    made = (_robustness, _roc, _false_positives, _quality, _cost, _length)
    return [make(document) for make in made]


def _robustness(document: Document) -> Chart:
    rows: Rows = []
    for run in document.measured:
        for cell in run.cells:
            figures = {_percent(target): cell.rate(target) for target in TARGETS}
            for metric, rate in {**{f"TPR at {name} FPR": r for name, r in figures.items()}, "AUC": cell.auc}.items():
                rows += [{**_where(run), "attack": cell.attack, "metric": metric, **_fields(rate)}] if rate else []
    caption = (
        "The darker the cell, the more of the attacked texts are still found. Threshold on the held-out null texts."
    )
    if not rows:
        return _missing("robustness", "Robustness", "No run has any text to show.")
    shown = _select("shown", [f"TPR at {_percent(t)} FPR" for t in TARGETS] + ["AUC"], "Figure", "TPR at 1% FPR")
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X(
            "attack:N", sort=document.attacks, title=None, axis=alt.Axis(labelAngle=-30, domain=False, ticks=False)
        ),
        y=alt.Y("scheme:N", sort=document.schemes, title=None, axis=alt.Axis(domain=False, ticks=False)),
        tooltip=_tooltips("scheme", "attack", "n"),
    )
    squares = base.mark_rect(cornerRadius=4, stroke=None).encode(
        color=alt.Color(
            "estimate:Q", scale=alt.Scale(domain=[0, 1], scheme="yellowgreenblue"), legend=None, title="rate"
        )
    )
    labels = base.mark_text(fontSize=12, fontWeight=600).encode(
        text=alt.Text("estimate:Q", format=".2f"),
        color=alt.condition("datum.estimate > 0.55", alt.value("#ffffff"), alt.value("#17202a")),
    )
    chart = _filtered(alt.layer(squares, labels), document, shown, "datum.metric === shown")
    return _chart("robustness", "Robustness", caption, chart, height=38 * len(document.schemes))


def _roc(document: Document) -> Chart:
    rows: Rows = []
    for run in document.measured:
        for cell in run.cells:
            rows += [{**_where(run), "attack": cell.attack, "fpr": f, "tpr": t} for f, t in cell.roc]
    if not rows:
        return _missing("roc", "ROC at low false-positive rates", "The verdicts of these runs are not there any more.")
    caption = (
        "Share of marked texts found against share of held-out null texts falsely found; the scale widens small rates."
    )
    ticks = [0, *map(float, TARGETS), HIGHEST_FPR]
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(interpolate="step-after", strokeWidth=2.2)
        .encode(
            x=alt.X(
                "fpr:Q",
                title="false-positive rate",
                scale=alt.Scale(type="sqrt", domain=[0, HIGHEST_FPR]),
                axis=alt.Axis(values=ticks, format=".1~%"),
            ),
            y=alt.Y("tpr:Q", title="true-positive rate", scale=_SHARE, axis=alt.Axis(format="%")),
            color=_colour(document),
            strokeDash=alt.StrokeDash("scheme:N", sort=document.schemes, legend=None),
            tooltip=[alt.Tooltip("scheme:N"), alt.Tooltip("fpr:Q", format=".3%"), alt.Tooltip("tpr:Q", format=".1%")],
        )
    )
    return _chart("roc", "ROC at low false-positive rates", caption, _by_attack(lines, document))


def _false_positives(document: Document) -> Chart:
    rows: Rows = []
    for run in document.measured:
        for family in run.families:
            name = f"{family.family}, {family.attack}" if family.attack else family.family
            for target in TARGETS:
                if rate := family.fpr.get(target):
                    rows.append(
                        {
                            **_where(run),
                            "family": name,
                            "level": _percent(target),
                            "target": float(target),
                            **_fields(rate),
                        }
                    )
    title = "False positives by null family"
    if not rows:
        return _missing("fpr", title, "No level is within reach of the calibration.")
    caption = "Share of unmarked texts with p at or below the level: dots should lie on the line or to its left."
    level = _select("level", [_percent(target) for target in TARGETS], "Level", "1%")
    plain = alt.Chart(
        alt.InlineData(values=rows)
    )  # one data object for all layers: a filter reaches only what is shared
    base = plain.encode(
        y=alt.Y("family:N", title=None, axis=alt.Axis(labelLimit=140)),
        yOffset=alt.YOffset("scheme:N", sort=document.schemes),
        color=_colour(document),
        tooltip=_tooltips("scheme", "family", "n"),
    )
    across = alt.X("estimate:Q", title="false-positive rate", axis=alt.Axis(format=".1~%"))
    spread = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="false-positive rate"), x2="high:Q")
    dots = base.mark_point(filled=True, size=55, opacity=1).encode(x=across)
    line = plain.mark_rule(strokeDash=[4, 3]).encode(x=alt.X("mean(target):Q", title="false-positive rate"))
    chart = _filtered(alt.layer(spread, dots, line), document, level, "datum.level === level")
    families = len({row["family"] for row in rows})
    return _chart("fpr", title, caption, chart, height=families * max(34, 13 * len(document.schemes)))


def _quality(document: Document) -> Chart:
    rows: Rows = []
    for run in document.measured:
        attacked = [r.estimate for cell in run.cells if cell.attack != UNATTACKED and (r := cell.rate("0.01"))]
        if QUALITY in run.quality and attacked:
            change = _fields(run.quality[QUALITY])
            rows.append({**_where(run), **change, "tpr": sum(attacked) / len(attacked), "attacks": len(attacked)})
    title = "Quality against detection"
    if not rows:
        reasons = dict.fromkeys(run.no_quality for run in document.measured if run.no_quality)
        why = f" ({'; '.join(reasons)})" if reasons else ""
        return _missing("quality", title, f"These runs have no log-perplexity against clean texts{why}.")
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        color=_colour(document),
        y=alt.Y("tpr:Q", title="mean TPR at 1% FPR under attack", scale=_SHARE, axis=alt.Axis(format="%")),
        tooltip=[alt.Tooltip("scheme:N"), alt.Tooltip("estimate:Q", format="+.3f", title="log-perplexity change"),
                 alt.Tooltip("tpr:Q", format=".1%"), alt.Tooltip("attacks:Q")],
    )  # fmt: skip
    title_x = "change of log-perplexity against clean texts (left: better)"
    dots = base.mark_point(filled=True, size=140, opacity=1).encode(
        x=alt.X("estimate:Q", title=title_x), shape=alt.Shape("scheme:N", sort=document.schemes, legend=None)
    )
    spread = base.mark_rule().encode(x=alt.X("low:Q", title=title_x), x2="high:Q")
    caption = "Upper left is best: found under attack, and as fluent as unmarked text."
    return _chart("quality", title, caption, _by_group(alt.layer(spread, dots), document))


def _cost(document: Document) -> Chart:
    rows: Rows = []
    for run in document.runs:
        if run.cost and run.cost.forward_tokens:
            counts = {name: rate.estimate for name in _COUNTS if (rate := getattr(run.cost, name))}
            seconds = "not timed" if run.cost.seconds is None else f"{run.cost.seconds:.3g}"
            rows.append({**_where(run), **counts, "seconds": seconds})
    title = "Cost per token"
    if not rows:
        return _missing("cost", title, "These runs have no samples.")
    caption = (
        "Positions sent through the model for each generated token, on a log scale. Seconds are of the run's machine."
    )
    bars = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(cornerRadiusEnd=3)
        .encode(
            y=alt.Y("scheme:N", sort="x", title=None),
            x=alt.X("forward_tokens:Q", title="model positions per token", scale=alt.Scale(type="log", domainMin=1),
                    axis=alt.Axis(values=[10**power for power in range(7)], format="~s")),
            x2=alt.X2Datum(1),
            color=_colour(document, with_legend=False),
            tooltip=[alt.Tooltip("scheme:N"), alt.Tooltip("forward_tokens:Q", format=",.1f"),
                     alt.Tooltip("forward_rows:Q", format=",.2f"), alt.Tooltip("head_rows:Q", format=",.1f"),
                     alt.Tooltip("steps:Q", format=".2f"), alt.Tooltip("seconds:N")],
        )
    )  # fmt: skip
    return _chart("cost", title, caption, _by_group(bars, document), height=38 * len(document.schemes))


def _length(document: Document) -> Chart:
    rows: Rows = []
    for run in document.measured:
        for cell in run.cells:
            for part in cell.by_length:
                rows.append({**_where(run), "attack": cell.attack, "tokens": part.tokens, **_fields(part.detected)})
    title = "Detection against length"
    if not rows:
        return _missing("length", title, "The lengths of the texts are not there any more.")
    caption = "Share of texts with p at or below alpha, by length: up to five bins of texts as long as they are"
    cut = any(run.tokens_to_detect and run.tokens_to_detect.detected_after for run in document.measured)
    caption += "; unattacked texts are cut after so many tokens." if cut else "."
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("tokens:Q", title="tokens", scale=alt.Scale(zero=False, padding=12)),
        color=_colour(document),
        tooltip=_tooltips("scheme", "attack", "n", "tokens"),
    )
    up = alt.Y("estimate:Q", title="detected", scale=_SHARE, axis=alt.Axis(format="%"))
    spread = base.mark_rule(opacity=0.55).encode(y=alt.Y("low:Q", title="detected"), y2="high:Q")
    line = base.mark_line(strokeWidth=2).encode(y=up)
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(
        y=up, shape=alt.Shape("scheme:N", sort=document.schemes, legend=None)
    )
    return _chart("length", title, caption, _by_attack(alt.layer(spread, line, dots), document))


# --- parts of charts ---------------------------------------------------------------------------------------------


def _where(run: RunReport) -> dict[str, str]:
    return {"scheme": run.scheme, "group": run.group}


def _fields(rate: Rate) -> dict[str, Any]:
    return {"estimate": rate.estimate, "low": rate.low, "high": rate.high, "n": rate.n[0] if rate.n else None}


def _percent(target: str) -> str:
    return f"{100 * float(target):g}%"


def _colour(document: Document, *, with_legend: bool = True) -> alt.Color:
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(document.schemes))]
    named = list(dict.fromkeys(run.scheme for run in document.measured))
    legend = alt.Legend(values=named, symbolOpacity=1, symbolStrokeWidth=2) if with_legend else None
    scale = alt.Scale(domain=document.schemes, range=colours)
    return alt.Color("scheme:N", scale=scale, title=None, legend=legend)


def _tooltips(*fields: str) -> list[alt.Tooltip]:
    kinds = {"n": "Q", "tokens": "Q"}
    rates = [alt.Tooltip(f"{name}:Q", format=".3f") for name in ("estimate", "low", "high")]
    return [*(alt.Tooltip(f"{name}:{kinds.get(name, 'N')}") for name in fields), *rates]


def _select(name: str, options: Sequence[str], label: str, chosen: str) -> alt.Parameter:
    return alt.param(name=name, value=chosen, bind=alt.binding_select(options=list(options), name=f"{label} "))


def _filtered(chart: Any, document: Document, parameter: alt.Parameter | None, condition: str) -> Any:
    """Only what the reader has chosen; of several groups one at a time."""
    made = chart.add_params(parameter).transform_filter(condition) if parameter is not None else chart
    if len(document.groups) > 1:
        group = _select("group", document.groups, "Model and prompts", document.groups[0])
        made = made.add_params(group).transform_filter("datum.group === group")
    return made


def _by_attack(chart: Any, document: Document) -> Any:
    attacks = document.attacks
    if len(attacks) < 2:
        return _by_group(chart, document)
    return _filtered(chart, document, _select("attack", attacks, "Attack", attacks[0]), "datum.attack === attack")


def _by_group(chart: Any, document: Document) -> Any:
    return _filtered(chart, document, None, "")


def _chart(name: str, title: str, caption: str, chart: Any, height: int = 250) -> Chart:
    """`height` in pixels is the plot's alone; the width is whatever the page has."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    words = f"{title}. {caption}"
    spec = chart.properties(width="container", height=height, autosize=fit, description=words).to_dict()
    spec.pop("config", None)  # Altair's own default; the page has its own
    return Chart(name, title, caption, spec)


def _missing(name: str, title: str, why: str) -> Chart:
    return Chart(name, title, why, None)
