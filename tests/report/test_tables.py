"""The tables for spreadsheets, papers and issues."""

from __future__ import annotations

import csv
import io
import re

from tests.report.made_up import ATTACKS, SCHEMES
from wmbench.report import render
from wmbench.report.document import Document
from wmbench.report.latex import escaped


def test_csv_has_one_line_per_cell(document: Document) -> None:
    rows = list(csv.DictReader(io.StringIO(render(document, "csv"))))
    assert len(rows) == len(SCHEMES) * len(ATTACKS)
    rate = document.measured[0].cells[1].rate("0.05", "split")
    assert rate is not None
    assert float(rows[1]["tpr_0.05_split_low"]) == rate.low
    assert float(rows[1]["tpr_0.01_interpolated"]) == document.measured[0].cells[1].tpr["0.01"].interpolated
    assert rows[1]["tpr_0.05_paper"] == ""
    assert [row["strength"] for row in rows if row["scheme"] == "umr"][-2:] == ["0.5", "0.3"]
    assert [row["fpr_n"] for row in rows if row["scheme"] == "umr"][:3] == ["1000", "1000", ""]


def test_latex_has_the_papers_layout(document: Document) -> None:
    table = render(document, "tex")
    assert "Attack & Method & finance \\\\" in table
    assert rf"\multirow{{{len(SCHEMES)}}}{{*}}{{unattacked}} & denmark & " in table
    block = table.split(r"\midrule")[2]  # lab-rewrite
    rows = re.findall(r"& ([\w-]+) & \((.*)\) \\\\", block)
    assert [scheme for scheme, _ in rows] == sorted(SCHEMES)
    figures = {scheme: [re.sub(r"\\textbf{(.*)}", r"\1", f) for f in entry.split(" / ")] for scheme, entry in rows}
    rate = document.measured[0].cells[1].rate("0.01")
    assert rate is not None
    assert figures["denmark"][1] == f"{100 * rate.estimate:.2f}"
    best = max(float(entry[1]) for entry in figures.values())
    bold = [scheme for scheme, entry in rows if entry.split(" / ")[1].startswith(r"\textbf")]
    assert bold == [scheme for scheme, entry in figures.items() if float(entry[1]) == best]
    assert escaped("50%_a&b\\{}") == r"50\%\_a\&b\textbackslash{}\{\}"


def test_what_was_not_run_is_not_out_of_reach(document: Document) -> None:
    """In Markdown and LaTeX both have a sign of their own."""
    first, second, *_ = document.measured
    cell = first.cells[1]
    blind = cell.model_copy(update={"tpr": {}})
    runs = [first.model_copy(update={"cells": [blind]}), second.model_copy(update={"cells": second.cells[2:3]})]
    shown = document.model_copy(update={"runs": runs})
    table = render(shown, "md")
    assert f"| {cell.attack} | n/a | – |" in table
    assert "–: the run did not meet this attack; n/a: the null texts cannot" in table
    assert "did not meet" not in render(document, "md")
    tex = render(shown, "tex")
    assert r"& denmark & (n/a / n/a / n/a / " in tex
    assert r"& dgmark & -- \\" in tex


def test_markdown_has_every_rate_and_no_foreign_markup(document: Document) -> None:
    named = document.model_copy(
        update={"runs": [run.model_copy(update={"scheme": f"{run.scheme}|<b>"}) for run in document.runs]}
    )
    table = render(named, "md")
    rows = [line for line in table.splitlines() if line.startswith("| unattacked |")]
    assert len(rows) == len(document.groups)
    found = [float(entry) for entry in re.findall(r"([\d.]+)\*{0,2} \[", rows[0])]
    runs = [run for run in document.measured if run.group == document.groups[0]]
    rates = [cell.rate("0.01") for run in runs if (cell := run.cell("unattacked"))]
    assert found == [round(100 * rate.estimate, 1) for rate in rates if rate]
    best = max(rate.estimate for rate in rates if rate)
    assert f"**{100 * best:.1f}**" in rows[0]
    assert "<b>" not in table.replace("\\<b\\>", "")
    held_out = runs[0].families[0].fpr["0.01"]
    assert held_out is not None
    low, high = 100 * held_out.low, 100 * held_out.high
    assert f"{100 * held_out.estimate:.1f} [{low:.1f}, {high:.1f}]" in table  # an interval of 1% has decimals
    width = {
        line.replace("\\|", "").count("|")
        for line in table.split("## Made by")[0].splitlines()
        if line.startswith("| ")
    }
    assert width == {len(runs) + 2, 9}


def test_what_plugins_say_stays_in_its_place(document: Document) -> None:
    """A caveat of several lines must not leave LaTeX's comment; versions and judges are names like any other."""
    run = document.measured[0].model_copy(
        update={"versions": {"plugin my_marks.py": "*inline*"}, "judge": "hf:a_b/c_d", "scheme": "two\nlines"}
    )
    said = document.model_copy(update={"runs": [run], "warnings": ["first\n\\input{evil}"]})
    tex = render(said, "tex")
    assert r"% first \input{evil}" in tex
    assert "& two lines &" in tex
    md = render(said, "md")
    assert r"plugin my\_marks.py \*inline\*." in md
    assert r"under hf:a\_b/c\_d." in md
