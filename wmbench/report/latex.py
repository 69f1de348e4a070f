"""A report as LaTeX: one table per backbone, attacks and methods down, prompt sets across, as in the paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from wmbench.report.document import TARGETS, Cell, Document, RunReport
from wmbench.report.notes import null_label

_SPECIAL: Final = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}",
}  # fmt: skip
_OUT_OF_REACH: Final = "n/a"
_NOT_RUN: Final = "--"


def latex_tables(document: Document) -> str:
    head = [
        "% Needs \\usepackage{booktabs,multirow}. Bold: the best of each attack and prompt set.",
        f"% {_NOT_RUN}: the run did not meet this attack; {_OUT_OF_REACH}: the null texts cannot decide the level.",
        *(f"% {' '.join(line.split())}" for line in [*document.notices, *document.warnings]),  # one line: a comment
    ]
    backbones = dict.fromkeys(run.backbone for run in document.measured)
    tables = ["\n".join(_table(document, backbone)) for backbone in backbones]
    return "\n\n".join(["\n".join(head), *tables]) + "\n"


def _table(document: Document, backbone: str) -> Iterator[str]:
    runs = [run for run in document.measured if run.backbone == backbone]
    datasets = list(dict.fromkeys(run.dataset for run in runs))
    schemes = list(dict.fromkeys(run.scheme for run in runs))
    attacks = [attack for attack in document.attacks if any(run.cell(attack) for run in runs)]
    nulls = sorted({null_label(run.nulls.identity) for run in runs if run.nulls})
    yield r"\begin{table*}[t]"
    yield r"\centering"
    yield rf"\caption{{\textbf{{Detection robustness on {escaped(backbone)}.}}"
    yield r"Each entry reports (TPR@0.5\% / TPR@1\% / TPR@5\% FPR / AUC)."
    yield rf"Null texts: {escaped('; '.join(nulls))}.}}"
    yield rf"\label{{tab:robustness-{_label(backbone)}}}"
    yield r"\scriptsize"
    yield rf"\begin{{tabular}}{{@{{}}ll|{'c' * len(datasets)}@{{}}}}"
    yield r"\toprule"
    yield " & ".join(["Attack", "Method", *map(escaped, datasets)]) + r" \\"
    for attack in attacks:
        yield r"\midrule"
        entries = {dataset: _entries(runs, schemes, dataset, attack) for dataset in datasets}
        for number, scheme in enumerate(schemes):
            first = rf"\multirow{{{len(schemes)}}}{{*}}{{{escaped(attack)}}}" if number == 0 else ""
            yield " & ".join([first, escaped(scheme), *(entries[dataset][number] for dataset in datasets)]) + r" \\"
    yield r"\bottomrule"
    yield r"\end{tabular}"
    yield r"\end{table*}"


def _entries(runs: Sequence[RunReport], schemes: Sequence[str], dataset: str, attack: str) -> list[str]:
    """One entry per scheme; the best of each figure is bold when there is something to be better than."""
    found = {run.scheme: cell for run in runs if run.dataset == dataset and (cell := run.cell(attack))}
    rows = [_figures(found.get(scheme)) for scheme in schemes]
    best = [
        max((figure for figure in column if figure is not None), default=None) for column in zip(*rows, strict=True)
    ]
    entries = []
    for scheme, row in zip(schemes, rows, strict=True):
        if scheme not in found:
            entries.append(_NOT_RUN)
            continue
        shown = []
        for number, figure in enumerate(row):
            text = (
                _OUT_OF_REACH
                if figure is None
                else f"{figure:.4f}"
                if number == len(TARGETS)
                else f"{100 * figure:.2f}"
            )
            is_best = figure is not None and figure == best[number] and len(schemes) > 1
            shown.append(rf"\textbf{{{text}}}" if is_best else text)
        entries.append(f"({' / '.join(shown)})")
    return entries


def _figures(cell: Cell | None) -> list[float | None]:
    if cell is None:
        return [None] * (len(TARGETS) + 1)
    return [rate.estimate if rate else None for rate in (*(cell.rate(target) for target in TARGETS), cell.auc)]


def escaped(text: str) -> str:
    return "".join(_SPECIAL.get(character, character) for character in " ".join(text.split()))


def _label(name: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in name)
