"""A report as Markdown, to paste into a README, an issue or a pull request: attacks down, schemes across."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from wmbench.report.document import Document, RunReport
from wmbench.report.notes import null_label
from wmbench.report.rates import Rate, WrongKeys

_TARGET: Final = "0.01"
_OUT_OF_REACH: Final = "n/a"
_NOT_RUN: Final = "–"
_SIGNS: Final = {
    _NOT_RUN: f"{_NOT_RUN}: the run did not meet this attack",
    _OUT_OF_REACH: f"{_OUT_OF_REACH}: the null texts cannot decide the level, or no text is left",
}


def markdown_tables(document: Document) -> str:
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Document) -> Iterator[str]:
    for line in [*document.notices, *document.warnings]:
        yield f"> {escaped(line)}"
        yield ">"
    yield "> TPR at 1% FPR in percent, threshold on held-out null texts, 95% intervals for this key. Bold: best of row."
    for group in document.groups:
        runs = [run for run in document.measured if run.group == group]
        yield from ("", f"## {escaped(group)}", "")
        table = list(_detection(document, runs))
        yield from table
        if legend := [meaning for sign, meaning in _SIGNS.items() if any(f"| {sign} |" in line for line in table)]:
            yield from ("", f"{'; '.join(legend)}.")
        yield from ("", *_price(runs))
    yield from ("", "## Made by", "", "```console")
    yield from dict.fromkeys(f"$ {run.command}" for run in document.measured)
    yield from ("```", "", f"wmbench {document.wmbench}; {escaped(_stack(document.measured))}.")


def _detection(document: Document, runs: Sequence[RunReport]) -> Iterator[str]:
    yield from _row(["attack", *(escaped(run.scheme) for run in runs)])
    yield from _row(["---"] * (len(runs) + 1))
    for attack in document.attacks:
        cells = [run.cell(attack) for run in runs]
        if not any(cells):
            continue
        rates = [cell.rate(_TARGET) if cell else None for cell in cells]
        best = max((rate.estimate for rate in rates if rate), default=None)
        shown = [
            _percent(rate, is_best=len(runs) > 1 and _is(rate, best)) if cell else _NOT_RUN
            for cell, rate in zip(cells, rates, strict=True)
        ]
        yield from _row([escaped(attack), *shown])


def _price(runs: Sequence[RunReport]) -> Iterator[str]:
    """What each scheme costs and whether its controls are null."""
    yield from _row(
        [
            "scheme",
            "answers",
            "change of log-perplexity",
            "forwards per token",
            "tokens to detect",
            "FPR, held out",
            "FPR, clean answers",
            "AUC, clean answers, wrong keys: like length / all",
        ]
    )
    yield from _row(["---"] * 8)
    for run in runs:
        cost, needed = run.cost, run.tokens_to_detect
        held_out, clean = run.families[:1], [f for f in run.families if f.family == "clean" and f.attack is None]
        yield from _row(
            [
                escaped(run.scheme),
                f"{run.samples.get('kept', '?')} of {run.samples.get('total', '?')}",
                _signed(run.quality.get("delta_log_perplexity")),
                f"{cost.forward_rows.estimate:.2f}" if cost and cost.forward_rows else _OUT_OF_REACH,
                f"{needed.estimate:.0f}" if needed and needed.estimate is not None else _OUT_OF_REACH,
                *(_percent(family[0].fpr.get(_TARGET) if family else None, digits=1) for family in (held_out, clean)),
                _clean_areas(run.wrong_keys),
            ]
        )
    nulls = sorted({null_label(run.nulls.identity) for run in runs if run.nulls})
    judges = sorted({run.judge for run in runs if run.judge})
    yield ""
    yield f"Null texts: {escaped('; '.join(nulls))}." + (
        f" Log-perplexity under {escaped(', '.join(judges))}." if judges else ""
    )


def _clean_areas(wrong: WrongKeys) -> str:
    """The control that must be one half: against null texts of like length, and against all of them."""
    areas = wrong.clean_auc_like_length, wrong.clean_auc
    if wrong.n < 2 or not any(areas):  # one key moves all texts alike
        return _OUT_OF_REACH
    shown = (f"{area.estimate:.2f}" if area and area.estimate is not None else _OUT_OF_REACH for area in areas)
    return " / ".join(shown)


def _stack(runs: Iterable[RunReport]) -> str:
    """Every version that any of the runs was made with."""
    found = {item for run in runs for item in run.versions.items() if item[0] != "wmbench"}
    return ", ".join(f"{name} {version}" for name, version in sorted(found))


def _row(cells: Iterable[str]) -> Iterator[str]:
    yield f"| {' | '.join(cells)} |"


def _is(rate: Rate | None, best: float | None) -> bool:
    return rate is not None and rate.estimate == best


def _percent(rate: Rate | None, *, is_best: bool = False, digits: int = 0) -> str:
    """`digits` of the interval: around 1% whole numbers would leave the estimate outside."""
    if rate is None:
        return _OUT_OF_REACH
    shown = f"{100 * rate.estimate:.1f}"
    return f"{f'**{shown}**' if is_best else shown} [{100 * rate.low:.{digits}f}, {100 * rate.high:.{digits}f}]"


def _signed(rate: Rate | None) -> str:
    return f"{rate.estimate:+.2f} [{rate.low:+.2f}, {rate.high:+.2f}]" if rate else _OUT_OF_REACH


def escaped(text: str) -> str:
    """Names come from plugins: none may break the table or smuggle in markup."""
    for special in "\\`*_[]<>|":
        text = text.replace(special, f"\\{special}")
    return " ".join(text.split())
