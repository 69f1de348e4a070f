"""Reports on finished runs: one offline HTML page, JSON, CSV, LaTeX and Markdown, all from one document."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wmbench.report.document import Document

FORMS = ("html", "json", "csv", "tex", "md")


def render(document: Document, form: str) -> str:
    """The document in one of `FORMS`."""
    from wmbench.report.latex import latex_tables
    from wmbench.report.markdown import markdown_tables
    from wmbench.report.page import html_page
    from wmbench.report.tables import csv_table

    if form == "json":
        # In ASCII: the texts of models may hold lone surrogates, which UTF-8 cannot. On one line: indentation would
        # make the evidence several times as large.
        return json.dumps(document.model_dump(mode="json"), separators=(",", ":")) + "\n"
    write = {"html": html_page, "csv": csv_table, "tex": latex_tables, "md": markdown_tables}[form]
    return write(document)


def write_report(document: Document, folder: Path) -> list[Path]:
    """`report.html`, `.json`, `.csv`, `.tex` and `.md`; the same runs give the same bytes."""
    from wmbench.disk import make_folder, write_atomic

    make_folder(folder)
    paths = [folder / f"report.{form}" for form in FORMS]
    for path, form in zip(paths, FORMS, strict=True):
        write_atomic(path, render(document, form).encode())
    return paths
