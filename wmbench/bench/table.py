"""The result of a comparison as a table for the terminal: scheme x attack, every rate with its interval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import IO, Any, Final, NamedTuple

from wmbench.bench.measure import (
    FEW_TEXTS,
    FEWEST_TEXTS,
    FPR_TARGETS,
    KEYS_TO_JUDGE,
    NULL_AUC_BAND,
    target_name,
)
from wmbench.console import open_console

Metrics = Mapping[str, Any]
_WIDTH: Final = 140


def print_summary(results: Sequence[Metrics], file: IO[str] | None = None) -> None:
    """One table per backbone and dataset, then what the rates stand on. Several runs of one scheme are numbered."""
    console = open_console(_WIDTH, file)
    names = numbered([(m["scheme"], (m["backbone"], m["dataset"])) for m in results])
    results = [{**m, "scheme": name} for m, name in zip(results, names, strict=True)]
    for backbone, dataset in dict.fromkeys((m["backbone"], m["dataset"]) for m in results):
        group = [m for m in results if (m["backbone"], m["dataset"]) == (backbone, dataset)]
        title = f"{backbone}, prompts {dataset}"
        wide = _table(title, group, _WIDE)
        needed = console.measure(wide, options=console.options.update(width=10 * _WIDTH)).maximum
        console.print(wide if needed <= console.width else _table(title, group, _COMPACT))
        for line in _footnotes(group):
            console.print(line, style="dim", soft_wrap=True)


def numbered(runs: Sequence[tuple[str, Hashable]]) -> list[str]:
    """Names of runs, of (scheme, what they share a table with): a scheme that occurs there several times gets numbers,
    or its runs would share a row or a line."""
    counts, seen = Counter(runs), Counter[tuple[str, Hashable]]()
    names = []
    for run in runs:
        seen[run] += 1
        names.append(f"{run[0]} ({seen[run]})" if counts[run] > 1 else run[0])
    return names


def _table(title: str, results: Iterable[Metrics], layout: _Layout) -> Any:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=layout.padding)
    table.add_column("scheme\n  attack", overflow="fold")
    table.add_column("n", justify="right", overflow="fold")
    for target in FPR_TARGETS:
        table.add_column(layout.heading.format(target), no_wrap=True)
    table.add_column("AUC", no_wrap=True)
    for metrics in results:
        table.add_row(metrics["scheme"], style="bold")
        for cell in metrics["cells"]:
            table.add_row(*_cell(cell, layout))
        for row in _controls(metrics, layout):
            table.add_row(*row, style="dim")
        table.add_section()
    return table


def _cell(cell: Metrics, layout: _Layout) -> list[str]:
    failed = f" ({cell['failed']} failed)" if cell["failed"] else ""
    row = [f"  {cell['attack']}", f"{cell['n']}{failed}"]
    if not cell["n"]:
        return [*row, *["no text"] * (len(FPR_TARGETS) + 1)]
    for target in FPR_TARGETS:
        rates = cell["tpr"][target_name(target)]
        row.append(f"{layout.tpr(rates['threshold'])}\n{layout.tpr(rates['split'])}")
    return [*row, layout.auc(cell["auc"])]


def _controls(metrics: Metrics, layout: _Layout) -> Iterable[list[str]]:
    """False positives of each null family stand in the split rows of the table; the wrong keys have an AUC."""
    for number, family in enumerate(metrics["nulls"]):
        name = f"FPR: {family['family']}" + (" held out" if number == 0 else "")
        if attack := family.get("attack"):
            name += f", {attack}"
        rates = [layout.fpr(family["fpr"][target_name(target)]) for target in FPR_TARGETS]
        area = metrics["clean_auc"] if family["family"] == "clean" and not attack else None
        yield [f"  {name}", str(family["n"]), *rates, layout.auc(area) if area else ""]
    wrong = metrics["wrong_keys"]
    if not wrong["n"]:
        yield [f"  wrong key: n/a ({wrong['why']})", "", *[""] * (len(FPR_TARGETS) + 1)]
        return
    keys = f"{wrong['n']} wrong keys" if wrong["n"] > 1 else "one wrong key"
    areas = {"marked": wrong.get("samples_auc"), "clean": wrong.get("clean_auc")}
    for found in wrong["families"]:
        rates = [layout.fpr(found["fpr"][target_name(target)]) for target in FPR_TARGETS]
        area = areas.get(found["family"])
        yield [f"  {keys}: {found['family']}", "", *rates, layout.auc(area) if area else ""]


def _footnotes(results: Sequence[Metrics]) -> Iterable[str]:
    yield (
        "Rates with 95% intervals, for this key. threshold: placed on the held-out null texts; "
        "split: p <= FPR by the calibration."
    )
    if any(0 < cell["n"] < FEWEST_TEXTS for metrics in results for cell in metrics["cells"]):
        yield FEW_TEXTS
    notes: dict[tuple[str, str], list[str]] = {}
    for metrics in results:
        samples, calibration = metrics["samples"], metrics["calibration"]
        dropped = ", ".join(f"{count} {reason}" for reason, count in samples["dropped"].items()) or "none dropped"
        status = f" [{metrics['status']}]" if metrics["status"] else ""
        yield (
            f"{metrics['scheme']}{status}: kept {samples['kept']} of {samples['total']} samples ({dropped}); "
            f"calibrated on {calibration['n']:,} texts of {calibration['nulls']['set']}, "
            f"{calibration['nulls']['tokens'][0]}-{calibration['nulls']['tokens'][1]} tokens, "
            f"{calibration['views']} view{'s' if calibration['views'] > 1 else ''}; key {metrics['key_id'] or 'n/a'}"
        )
        yield f"  {_price(metrics)}"
        if controls := "; ".join(_control_findings(metrics)):
            yield f"  controls: {controls}"
        for found in _notes(metrics):
            notes.setdefault(found, []).append(metrics["scheme"])
    for (mark, note), schemes in notes.items():  # each once
        yield f"{mark}{note}" if len(schemes) == len(results) else f"{mark}{', '.join(schemes)}: {note}"


def _notes(metrics: Metrics) -> Iterable[tuple[str, str]]:
    """What several runs may have in common; with an asterisk what explains one in the table."""
    if metrics["wrong_keys"]["n"] == 1:
        keys = f"--keys {KEYS_TO_JUDGE} averages over {KEYS_TO_JUDGE}"
        yield "", f"one wrong key shifts all texts alike and has no interval; {keys}"
    quality = metrics.get("quality") or {}
    if not quality.get("delta_log_perplexity"):
        yield "", f"log-perplexity against clean texts is n/a: {quality.get('why') or 'it was not measured'}"
    levels: dict[str, list[str]] = {}
    for target in map(target_name, FPR_TARGETS):
        reasons = [found[target] for found in (metrics["unresolved"], metrics.get("tied", {})) if target in found]
        if reasons:
            whys, hints = ("; ".join(reason[part] for reason in reasons) for part in ("why", "hint"))
            levels.setdefault(f"{whys}: {hints}", []).append(f"{float(target):.1%}")
    for reason, names in levels.items():
        yield "* ", f"at {' and '.join(names)} FPR: {reason}"


def _control_findings(metrics: Metrics) -> Iterable[str]:
    """What must be null, and whether it is. A few keys do not tell: one key moves all clean texts alike."""
    wrong, identity = metrics["wrong_keys"], metrics.get("identity")
    is_judged = wrong["n"] >= KEYS_TO_JUDGE
    under = f"texts under {wrong['n']} keys that marked nothing: AUC"
    if wrong["n"] > 1 and "clean_auc" in wrong:
        clean, against = _like_length(wrong, "clean")
        yield f"clean {under} {_rate(clean, 3)}{against}" + (f", {_within_band(clean)}" if is_judged else "")
    if wrong["n"] > 1 and "samples_auc" in wrong:
        marked, against = _like_length(wrong, "samples")
        holds = f", its interval {'holds' if marked['low'] <= 0.5 <= marked['high'] else 'does NOT hold'} 0.5"
        yield f"marked {under} {_rate(marked, 3)}{against}" + (holds if is_judged else "")
    if 1 < wrong["n"] < KEYS_TO_JUDGE:
        yield f"to judge a control takes {KEYS_TO_JUDGE} keys (--keys {KEYS_TO_JUDGE})"
    if identity:
        changed = identity["n"] - identity["unchanged"]
        yield f"identity {'changes nothing' if not changed else f'CHANGED {changed} texts'} (n = {identity['n']})"


def _within_band(found: Metrics) -> str:
    """Of the mean; an interval that reaches beyond the band is named, since it bears out less than that."""
    band = f"within 0.5 +- {NULL_AUC_BAND:g}"
    if abs(found["estimate"] - 0.5) > NULL_AUC_BAND:
        return f"NOT {band}"
    if found["low"] >= 0.5 - NULL_AUC_BAND and found["high"] <= 0.5 + NULL_AUC_BAND:
        return band
    return f"the mean is {band}, its interval [{found['low']:.3f}, {found['high']:.3f}] is not"


def _like_length(wrong: Metrics, name: str) -> tuple[Metrics, str]:
    """The AUC that decides, and what it stands against: null texts of like length, or all where those are too few."""
    everything, alike = wrong[f"{name}_auc"], wrong.get(f"{name}_auc_like_length")
    if alike is None or alike["estimate"] is None:
        return everything, " against null texts of all lengths (too few are of like length)" if alike else ""
    left_out = f", {alike['unmatched']} texts left out" if alike["unmatched"] else ""
    return alike, f" against null texts of like length ({everything['estimate']:.3f} against all{left_out})"


def _price(metrics: Metrics) -> str:
    """What the mark costs: forwards, fluency, tokens."""
    cost, quality, needed = (metrics.get(name) or {} for name in ("cost", "quality", "tokens_to_detect"))
    parts = []
    if "forward_rows" in cost:
        ratio = f" ({cost['forward_rows_ratio']['estimate']:.2f} x clean)" if "forward_rows_ratio" in cost else ""
        parts.append(f"{cost['forward_rows']['estimate']:.2f} forwards per token{ratio}")
    if delta := quality.get("delta_log_perplexity"):
        parts.append(f"log-perplexity {_signed(delta)} against clean ({quality['judge']})")
    else:
        parts.append("log-perplexity against clean n/a")
    if needed and needed["estimate"] is None:
        parts.append(needed["why"])
    elif needed:
        parts.append(f"median {needed['estimate']:.0f} tokens to detect at alpha = {needed['alpha']:g}")
    return "; ".join(parts)


def _signed(found: Metrics) -> str:
    return f"{found['estimate']:+.3f} [{found['low']:+.3f}, {found['high']:+.3f}]"


def _rate(found: Metrics | None, digits: int = 2, scale: int = 1, gap: str = " ", comma: str = ", ") -> str:
    if found is None:
        return "n/a*"
    estimate = f"{scale * found['estimate']:.{digits}f}"
    if found["low"] is None:
        return f"{estimate}{gap}(one key)"
    return f"{estimate}{gap}[{scale * found['low']:.{digits}f}{comma}{scale * found['high']:.{digits}f}]"


class _Layout(NamedTuple):
    """How figures are written."""

    heading: str
    padding: tuple[int, int, int, int]
    tpr: Callable[[Metrics | None], str]
    fpr: Callable[[Metrics | None], str]
    auc: Callable[[Metrics | None], str]


_WIDE: Final = _Layout(
    "TPR at {:.1%} FPR\nthreshold / split",
    (0, 1, 0, 1),
    _rate,
    partial(_rate, digits=3),
    partial(_rate, digits=3),
)
# For 80 columns: percent, narrow intervals, and these below the estimate where a cell has only one figure.
_COMPACT: Final = _Layout(
    "TPR in %\nat {:.1%} FPR\nthreshold /\nsplit",
    (0, 1, 0, 0),
    partial(_rate, digits=0, scale=100, comma=","),
    partial(_rate, digits=1, scale=100, gap="\n", comma=","),
    partial(_rate, digits=3, gap="\n", comma=","),
)
