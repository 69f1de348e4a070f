"""The charts of a report as Vega-Lite specifications, made with Altair. Colours of axes and text are the page's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import altair as alt

from wmbench.bench.textset import UNATTACKED
from wmbench.report.chart_parts import (
    SHARE,
    Chart,
    Rows,
    by_attack,
    by_group,
    colour,
    fields,
    filtered,
    finished,
    fpr_axis_end,
    missing,
    percent,
    select,
    tooltips,
    where,
)
from wmbench.report.curves import HIGHEST_FPR
from wmbench.report.document import TARGETS, Cell, Document, RunReport
from wmbench.report.rates import Rate

QUALITY: Final = "delta_log_perplexity"
_COUNTS: Final = ("forward_tokens", "forward_rows", "head_rows", "steps")


def charts(document: Document) -> list[Chart]:
    made = (_robustness, _strength, _roc, _false_positives, _quality, _cost, _length)
    return sorted((make(document) for make in made), key=lambda chart: chart.spec is None)  # what is missing, last


def _robustness(document: Document) -> Chart:
    rows: Rows = []
    for run in document.measured:
        for cell in run.cells:
            rows += [{**where(run), "attack": cell.attack, **figure} for figure in _figures(cell)]
    caption = (
        "The darker the cell, the more of the attacked texts are still found. Threshold on the held-out null texts."
    )
    if not rows:
        return missing("robustness", "Robustness", "No run has any text to show.")
    # Attacks go down: they are many and have long names. Every label is drawn, however many there are.
    plain: dict[str, Any] = {"domain": False, "ticks": False, "labelOverlap": False}
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("scheme:N", sort=document.schemes, title=None, axis=alt.Axis(orient="top", labelAngle=-30, **plain)),
        y=alt.Y("attack:N", sort=document.attacks, title=None, axis=alt.Axis(**plain)),
        tooltip=tooltips("scheme", "attack", "n"),
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
    chart = filtered(alt.layer(squares, labels), document, _shown(rows), "datum.metric === shown")
    return finished("robustness", "Robustness", caption, chart, height=28 * len(document.attacks))


def _strength(document: Document) -> Chart:
    rows: Rows = []
    for run in document.measured:
        unattacked = run.cell(UNATTACKED)
        before = {figure["metric"]: figure["estimate"] for figure in _figures(unattacked)} if unattacked else {}
        for cell in run.cells:
            if cell.curve is not None:
                place = {**where(run), "curve": cell.curve, "strength": cell.strength}
                rows += [{**place, **figure, "before": before.get(figure["metric"])} for figure in _figures(cell)]
    strengths: dict[str, set[float]] = {}
    for row in rows:
        strengths.setdefault(row["curve"], set()).add(row["strength"])
    curves = [curve for curve, values in strengths.items() if len(values) > 1]
    title = "Strength of the attack"
    if not curves:
        return missing("strength", title, "No attack of these runs has several strengths: --attack delete:grid.")
    base = alt.Chart(alt.InlineData(values=[row for row in rows if row["curve"] in curves])).encode(
        x=alt.X("strength:Q", title="strength of the attack", scale=alt.Scale(zero=False, padding=12)),
        color=colour(document),
        tooltip=tooltips("scheme", "curve", "n", "strength"),
    )
    title_y = "TPR or AUC, as chosen"
    up = alt.Y("estimate:Q", title=title_y, scale=SHARE, axis=alt.Axis(format="%"))
    without = base.mark_rule(strokeDash=[2, 4], opacity=0.6).encode(
        y=alt.Y("mean(before):Q", title=title_y), x=alt.value(0), x2=alt.value("width")
    )
    spread = base.mark_rule(opacity=0.55).encode(y=alt.Y("low:Q", title=title_y), y2="high:Q")
    line = base.mark_line(strokeWidth=2).encode(y=up)
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(
        y=up, shape=alt.Shape("scheme:N", sort=document.schemes, legend=None)
    )
    chart = alt.layer(without, spread, line, dots).add_params(_shown(rows)).transform_filter("datum.metric === shown")
    chosen = select("curve", curves, "Attack", curves[0])
    caption = "What is still found the stronger the attack is. Dotted: unattacked."
    return finished("strength", title, caption, filtered(chart, document, chosen, "datum.curve === curve"))


def _shown(rows: Rows) -> alt.Parameter:
    """Which figure: the TPR at 1% first, unless some scheme's calibration cannot decide that level."""
    figures = [f"TPR at {percent(target)} FPR" for target in TARGETS] + ["AUC"]
    known = {(row["scheme"], row["metric"]) for row in rows}
    schemes = {scheme for scheme, _ in known}
    preferred = ["TPR at 1% FPR", "TPR at 5% FPR"]
    first = next((name for name in preferred if all((scheme, name) in known for scheme in schemes)), "AUC")
    return select("shown", figures, "Figure", first)


def _figures(cell: Cell) -> Rows:
    """What the reader may choose to see of a cell; nothing where it is out of reach."""
    rates: dict[str, Rate | None] = {f"TPR at {percent(target)} FPR": cell.rate(target) for target in TARGETS}
    return [{"metric": name, **fields(rate)} for name, rate in {**rates, "AUC": cell.auc}.items() if rate]


def _roc(document: Document) -> Chart:
    rows: Rows = []
    for run in document.measured:
        for cell in run.cells:
            rows += [{**where(run), "attack": cell.attack, "fpr": f, "tpr": t} for f, t in cell.roc]
    if not rows:
        return missing("roc", "ROC at low false-positive rates", "The verdicts of these runs are not there any more.")
    caption = (
        "Share of marked texts found against share of held-out null texts falsely found; the scale widens small rates. "
        "Lines that coincide lie in each other, the first scheme's widest."
    )
    schemes = list(dict.fromkeys(row["scheme"] for row in rows))
    step = min(3.0, 10 / max(1, len(schemes) - 1))
    widths = [2 + step * number for number in reversed(range(len(schemes)))]
    ticks = [0, *map(float, TARGETS), HIGHEST_FPR]
    lines = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line(interpolate="step-after", strokeCap="butt")
        .encode(
            x=alt.X(
                "fpr:Q",
                title="false-positive rate",
                scale=alt.Scale(type="sqrt", domain=[0, HIGHEST_FPR]),
                axis=alt.Axis(values=ticks, format=".1~%"),
            ),
            y=alt.Y("tpr:Q", title="true-positive rate", scale=SHARE, axis=alt.Axis(format="%")),
            color=colour(document, symbol="stroke"),
            strokeWidth=alt.StrokeWidth(
                "scheme:O", scale=alt.Scale(type="ordinal", domain=schemes, range=widths), legend=None
            ),
            tooltip=[alt.Tooltip("scheme:N"), alt.Tooltip("fpr:Q", format=".3%"), alt.Tooltip("tpr:Q", format=".1%")],
        )
    )
    return finished("roc", "ROC at low false-positive rates", caption, by_attack(lines, document))


def _false_positives(document: Document) -> Chart:
    rows: Rows = []
    for run in document.measured:
        for family in run.families:
            for target in TARGETS:
                if rate := family.fpr.get(target):
                    place = {"family": family.family, "attack": family.attack or UNATTACKED}
                    at = {"level": percent(target), "target": float(target)}
                    rows.append({**where(run), **place, **at, **fields(rate)})
    ends = {level: fpr_axis_end(row for row in rows if row["level"] == level) for level in map(percent, TARGETS)}
    rows = [{**row, "end": min(row["high"], ends[row["level"]])} for row in rows]
    title = "False positives by null family"
    if not rows:
        return missing("fpr", title, "No level is within reach of the calibration.")
    caption = "Share of unmarked texts with p at or below the level: dots should lie on the line or to its left."
    if any(row["end"] < row["high"] for row in rows):
        caption += " An interval with a pointed end goes on beyond the axis."
    levels = [percent(target) for target in TARGETS if percent(target) in {row["level"] for row in rows}]
    level = select("level", levels, "Level", "1%" if "1%" in levels else levels[0])
    plain = alt.Chart(
        alt.InlineData(values=rows)
    )  # one data object for all layers: a filter reaches only what is shared
    base = plain.encode(
        y=alt.Y("family:N", title=None, axis=alt.Axis(labelLimit=140)),
        yOffset=alt.YOffset("scheme:N", sort=document.schemes),
        color=colour(document),
        tooltip=tooltips("scheme", "family", "n"),
    )
    across = alt.X("estimate:Q", title="false-positive rate", axis=alt.Axis(format=".1~%"))
    spread = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="false-positive rate"), x2="end:Q")
    dots = base.mark_point(filled=True, size=55, opacity=1).encode(x=across)
    cut = base.mark_point(filled=True, size=45, shape="triangle-right").encode(
        x=alt.X("end:Q", title="false-positive rate"),
        opacity=alt.condition("datum.end < datum.high", alt.value(1), alt.value(0)),
    )
    line = plain.mark_rule(strokeDash=[4, 3]).encode(x=alt.X("mean(target):Q", title="false-positive rate"))
    chart = alt.layer(spread, dots, cut, line).add_params(level).transform_filter("datum.level === level")
    attacks = list(dict.fromkeys(row["attack"] for row in rows))
    chosen = select("attack", attacks, "Attack on the null texts", UNATTACKED) if len(attacks) > 1 else None
    chart = filtered(chart, document, chosen, "datum.attack === attack")
    families = len({row["family"] for row in rows})
    return finished("fpr", title, caption, chart, height=families * max(34, 13 * len(document.schemes)))


def _quality(document: Document) -> Chart:
    rows: Rows = []
    left_out: dict[str, list[str]] = {}
    for run in document.measured:
        shared = document.shared_attacks(run.group)
        attacked = [rate.estimate for name in shared if (cell := run.cell(name)) and (rate := cell.rate("0.01"))]
        if QUALITY in run.quality and attacked:
            change = fields(run.quality[QUALITY])
            rows.append({**where(run), **change, "tpr": sum(attacked) / len(attacked), "attacks": len(attacked)})
        else:
            left_out.setdefault(_why_no_point(run, shared), []).append(run.scheme)
    title = "Quality against detection"
    if not rows:
        return missing("quality", title, f"No run has a point here: {'; '.join(left_out)}.")
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        color=colour(document, shown=list(dict.fromkeys(row["scheme"] for row in rows))),
        y=alt.Y("tpr:Q", title="mean TPR at 1% FPR under attack", scale=SHARE, axis=alt.Axis(format="%")),
        tooltip=[alt.Tooltip("scheme:N"), alt.Tooltip("estimate:Q", format="+.3f", title="log-perplexity change"),
                 alt.Tooltip("tpr:Q", format=".1%"), alt.Tooltip("attacks:Q")],
    )  # fmt: skip
    title_x = "change of log-perplexity (left is better)"
    dots = base.mark_point(filled=True, size=140, opacity=1).encode(
        x=alt.X("estimate:Q", title=title_x), shape=alt.Shape("scheme:N", sort=document.schemes, legend=None)
    )
    spread = base.mark_rule().encode(x=alt.X("low:Q", title=title_x), x2="high:Q")
    caption = (
        "Upper left is best: found under attack, and as fluent as the clean texts that the change is measured against. "
        "Means are over the attacks that all runs met."
    )
    if left_out:
        reasons = (f"{', '.join(dict.fromkeys(schemes))} ({why})" for why, schemes in left_out.items())
        caption += f" Not shown: {'; '.join(reasons)}."
    return finished("quality", title, caption, by_group(alt.layer(spread, dots), document))


def _why_no_point(run: RunReport, shared: Sequence[str]) -> str:
    if QUALITY not in run.quality:
        return f"no log-perplexity against clean texts{f': {run.no_quality}' if run.no_quality else ''}"
    if not run.met:
        return "no attack was met"
    return "the null texts decide no rate at 1% FPR" if shared else "no attack was met by all runs"


def _cost(document: Document) -> Chart:
    rows: Rows = []
    for run in document.runs:
        if run.cost and run.cost.forward_tokens:
            counts = {name: rate.estimate for name in _COUNTS if (rate := getattr(run.cost, name))}
            seconds = "not timed" if run.cost.seconds is None else f"{run.cost.seconds:.3g}"
            rows.append({**where(run), **counts, "seconds": seconds})
    title = "Cost per token"
    if not rows:
        return missing("cost", title, "These runs have no samples.")
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
            color=colour(document, with_legend=False),
            tooltip=[alt.Tooltip("scheme:N"), alt.Tooltip("forward_tokens:Q", format=",.1f"),
                     alt.Tooltip("forward_rows:Q", format=",.2f"), alt.Tooltip("head_rows:Q", format=",.1f"),
                     alt.Tooltip("steps:Q", format=".2f"), alt.Tooltip("seconds:N")],
        )
    )  # fmt: skip
    return finished("cost", title, caption, by_group(bars, document), height=38 * len(document.schemes))


def _length(document: Document) -> Chart:
    rows: Rows = []
    for run in document.measured:
        for cell in run.cells:
            for part in cell.by_length:
                rows.append({**where(run), "attack": cell.attack, "tokens": part.tokens, **fields(part.detected)})
    title = "Detection against length"
    if not rows:
        return missing("length", title, "The lengths of the texts are not there any more.")
    caption = "Share of texts with p at or below alpha. Texts are taken together by length, in up to five groups"
    cut = any(run.tokens_to_detect and run.tokens_to_detect.detected_after for run in document.measured)
    caption += "; unattacked ones are each cut to the lengths shown." if cut else "."
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("tokens:Q", title="length of the text in tokens", scale=alt.Scale(zero=False, padding=12)),
        color=colour(document),
        tooltip=tooltips("scheme", "attack", "n", "tokens"),
    )
    up = alt.Y("estimate:Q", title="texts detected", scale=SHARE, axis=alt.Axis(format="%"))
    spread = base.mark_rule(opacity=0.55).encode(y=alt.Y("low:Q", title="texts detected"), y2="high:Q")
    line = base.mark_line(strokeWidth=2).encode(y=up)
    dots = base.mark_point(filled=True, size=60, opacity=1).encode(
        y=up, shape=alt.Shape("scheme:N", sort=document.schemes, legend=None)
    )
    return finished("length", title, caption, by_attack(alt.layer(spread, line, dots), document))
