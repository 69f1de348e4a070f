"""What stands on the page of a report, and on that of judged texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from wmbench.bench.measure import FEW_TEXTS, FEWEST_TEXTS
from wmbench.bench.textset import UNATTACKED
from wmbench.report.document import RULES, TARGETS, UNHARMED, Document, Passage, RunReport, TokensToDetect
from wmbench.report.evidence import shades, visible
from wmbench.report.html import chart_bundle, has_chart_library, render, safe_json, template_file
from wmbench.report.notes import null_label
from wmbench.report.palette import PALETTE
from wmbench.report.rates import Rate


def html_page(document: Document) -> str:
    """The whole report. Without the extra `report` it has no charts, and says so."""
    has_charts = has_chart_library()
    made = _charts(document) if has_charts else []
    data = {
        "charts": {chart.name: chart.spec for chart in made if chart.spec},
        "runs": [_run_data(run, len(document.groups) > 1) for run in document.measured if run.examples],
    }
    scripts = [*([chart_bundle()] if has_charts else []), template_file("report.js")]
    groups = document.groups
    return render(
        "report.html.j2",
        scripts,
        document=document,
        title=_title(document),
        lead=_lead(document),
        cards={group: [_card(run, document) for run in document.measured if run.group == group] for group in groups},
        rows=[{"run": run, "cell": cell} for run in document.measured for cell in run.cells],
        columns=_columns(len(groups) > 1),
        charts=made,
        has_charts=has_charts,
        has_texts=bool(data["runs"]),
        shown_texts=_shown_texts(document.measured),
        data=safe_json(data),
        groups=groups,
        schemes=list(dict.fromkeys(run.scheme for run in document.measured)),
        colour={scheme: number % len(PALETTE) for number, scheme in enumerate(document.schemes)},
        targets=TARGETS,
        few_texts=_few_texts(document.measured),
        rules=RULES,
        attacked_nulls=any(run.attacked_families for run in document.measured),
        percent=_percent,
        heat=_heat,
        null_label=null_label,
        pretty=lambda value: json.dumps(value, indent=2, sort_keys=True),
    )


@dataclass(frozen=True)
class JudgedText:
    """A text of `wmbench detect` as the page shows it."""

    name: str
    p: float
    detected: bool
    alpha: float
    method: str
    view: str
    warnings: Sequence[str]
    passage: Passage
    is_cut: bool = False
    """Only its beginning is shown."""


def evidence_page(texts: Sequence[JudgedText], scheme: str, rests_on: str) -> str:
    """Judged texts with their evidence, and what the p-values rest on: key and null texts. Needs no script at all."""
    from wmbench import __version__

    found = sum(text.detected for text in texts)
    items = [
        {
            **{name: getattr(text, name) for name in ("p", "detected", "alpha", "is_cut")},
            **{name: visible(getattr(text, name)) for name in ("name", "method", "view")},
            "warnings": [visible(warning) for warning in text.warnings],
            "pieces": [dict(zip(("text", "shade", "tip"), piece, strict=True)) for piece in _pieces(text.passage)],
        }
        for text in texts
    ]
    texts_word = "text" if len(texts) == 1 else "texts"
    return render(
        "evidence.html.j2",
        [],
        title=f"{scheme}: watermark found in {found} of {len(texts)} {texts_word}",
        lead=visible(rests_on),
        items=items,
        version=__version__,
    )


# --- what the page says ------------------------------------------------------------------------------------------


def _title(document: Document) -> str:
    schemes = list(dict.fromkeys(run.base_scheme or run.scheme for run in document.measured))
    met = {frozenset(run.met) for run in document.measured}
    most = max(map(len, met), default=0)
    models = " and ".join(dict.fromkeys(run.backbone for run in document.measured)) or "no model"
    watermarks = f"{len(schemes)} watermarks" if len(schemes) != 1 else f"The watermark {schemes[0]}"
    attacks = f"{'up to ' if len(met) > 1 else ''}{most} attack{'s' if most != 1 else ''}"
    return f"{watermarks} under {attacks} on {models}"


def _lead(document: Document) -> str:
    runs = document.measured
    datasets = ", ".join(dict.fromkeys(run.dataset for run in runs))
    texts = sum(int(run.samples.get("kept", 0)) for run in runs)
    nulls = dict.fromkeys(null_label(run.nulls.identity) for run in runs if run.nulls)
    return f"Prompts: {datasets}. {texts:,} marked texts. Calibrated on {'; '.join(nulls) or 'nothing'}."


def _few_texts(runs: Iterable[RunReport]) -> str:
    is_few = any(0 < cell.n < FEWEST_TEXTS for run in runs for cell in run.cells)
    return FEW_TEXTS if is_few else ""


def _shown_texts(runs: Iterable[RunReport]) -> str:
    """Whose texts are in the page: prompts of each run."""
    counts = {(len(run.examples), int(run.samples.get("kept", 0))) for run in runs if run.examples}
    if all(shown == kept for shown, kept in counts):
        return "all prompts"
    kept = sorted(number for _, number in counts)
    of = f"of {kept[0]} prompts" if len(counts) == 1 else f"prompts (of {kept[0]} to {kept[-1]})"
    return f"the first {max(shown for shown, _ in counts)} {of}"


def _columns(several_groups: bool) -> list[tuple[str, str]]:
    group = [("group", "Model and prompts")] if several_groups else []
    rates = [(target, f"TPR at {_percent(target)} FPR") for target in TARGETS]
    return [("scheme", "Scheme"), *group, ("attack", "Attack"), ("n", "Texts"), *rates, ("auc", "AUC")]


def _card(run: RunReport, document: Document) -> dict[str, Any]:
    """How well it is found, what the worst attack leaves of that, what it costs. Means are over the attacks that all
    runs share, so that cards compare."""
    shared = document.shared_attacks(run.group)
    target = next((t for t in ("0.01", "0.05") if t not in run.tied), TARGETS[-1])
    unattacked = run.cell(UNATTACKED)
    attacked = [(rate, cell) for cell in run.cells if cell.attack not in UNHARMED and (rate := cell.rate(target))]
    unhurt = unattacked.rate(target) if unattacked else None
    facts = [(UNATTACKED, _with_interval(unhurt, "%", 100))]
    if unhurt is None and unattacked:
        facts = [(f"AUC, {UNATTACKED}", _with_interval(unattacked.auc, digits=3))]
    if attacked:
        worst, cell = min(attacked, key=lambda pair: pair[0].estimate)
        facts.append((f"weakest: {cell.attack}", _with_interval(worst, "%", 100)))
    areas = [cell.auc.estimate for cell in run.cells if cell.auc and cell.attack in shared]
    mean_area = f"{sum(areas) / len(areas):.3f}" if areas else "n/a"
    rates = [rate.estimate for rate, cell in attacked if cell.attack in shared]
    under = _under(document, run.group)
    if rates:
        headline = f"{100 * sum(rates) / len(rates):.0f}%", f"mean TPR at {_percent(target)} FPR {under}"
        facts.append((f"mean AUC {under}", (mean_area, "")))
    elif areas and unhurt is None:
        headline = mean_area, f"mean AUC {under}; the null texts decide no rate"
    elif shared and not run.met:
        headline = "–", "met no attack"
    else:
        shown = "n/a" if unhurt is None else f"{100 * unhurt.estimate:.0f}%"
        headline = shown, f"TPR at {_percent(target)} FPR, {UNATTACKED}"
    if needed := run.tokens_to_detect:
        value, interval = _with_interval(needed)
        facts.append(("median tokens to detect", (value, _open_ended(interval) if needed.censored else interval)))
    if change := run.quality.get("delta_log_perplexity"):
        facts.append(("log-perplexity change", _with_interval(change, digits=2, sign="+")))
    if run.cost and run.cost.forward_rows_ratio:
        facts.append(("model forwards", _with_interval(run.cost.forward_rows_ratio, " × clean", digits=2)))
    elif run.cost and run.cost.forward_rows:
        facts.append(("model forwards per token", _with_interval(run.cost.forward_rows, digits=2)))
    return {"scheme": run.scheme, "headline": headline, "facts": facts}


def _under(document: Document, group: str) -> str:
    """What a mean is over."""
    shared = document.shared_attacks(group)
    if all(len(run.met) in (0, len(shared)) for run in document.measured if run.group == group):
        return "under attack"
    return f"under the {len(shared)} attacks that all runs met" if len(shared) > 1 else f"under {', '.join(shared)}"


def _with_interval(
    found: Rate | TokensToDetect | None, unit: str = "", scale: int = 1, digits: int = 0, sign: str = ""
) -> tuple[str, str]:
    """The estimate, and behind it the interval."""
    if found is None or found.estimate is None:
        return "n/a", ""
    estimate, low, high = (
        f"{scale * value:{sign}.{digits}f}" if value is not None else "?"
        for value in (found.estimate, found.low, found.high)
    )
    return f"{estimate}{unit}", f"[{low}, {high}]"


def _open_ended(interval: str) -> str:
    return interval.replace("]", " or more]")


def _percent(target: str) -> str:
    return f"{100 * float(target):g}%"


def _heat(rate: Rate | None, floor: float = 0.0) -> str:
    """The shade of a cell, in eleven steps."""
    return "none" if rate is None else str(round(10 * min(1.0, max(0.0, (rate.estimate - floor) / (1.0 - floor)))))


def _run_data(run: RunReport, several_groups: bool) -> dict[str, Any]:
    titles = {"clean": "Clean", "marked": "Marked"}
    examples = [
        {
            "prompt": visible(example.prompt),
            "passages": [
                {
                    "kind": passage.kind,
                    "title": titles.get(passage.kind, f"Attacked: {passage.kind}"),
                    **passage.model_dump(include={"p", "score", "detected"}),
                    "view": visible(passage.view),
                    "error": visible(passage.error) if passage.error else None,
                    "pieces": _pieces(passage),
                }
                for passage in example.passages
            ],
        }
        for example in run.examples
    ]
    return {
        "name": run.name,
        "title": f"{run.scheme}, {run.group}" if several_groups else run.scheme,
        "no_evidence": visible(run.no_evidence),
        "attacks": [cell.attack for cell in run.cells if cell.attack != UNATTACKED],
        "examples": examples,
    }


def _pieces(passage: Passage) -> list[tuple[str, int | None, str]]:
    """Text, shade, and what the mouse says about it."""
    strengths = shades([piece.weight for piece in passage.pieces])
    return [
        (visible(piece.text), shade, visible(f"{piece.label} {piece.weight:+.3g}".strip()) if shade is not None else "")
        for piece, shade in zip(passage.pieces, strengths, strict=True)
    ]


def _charts(document: Document) -> list[Any]:
    from wmbench.report.charts import charts

    return charts(document)
