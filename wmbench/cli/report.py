"""`wmbench report`"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, note, print_json
from wmbench.errors import WmbenchError

if TYPE_CHECKING:
    from wmbench.host import Host
    from wmbench.report.document import Document

TEXTS = 6


LARGE_PAGE = 30
"""Megabytes from which on a page is called large."""


def _number_or_all(context: click.Context, option: click.Parameter, value: str) -> int:
    if value == "all":
        return sys.maxsize
    if not value.isdecimal():
        raise click.BadParameter(f"expected a number or `all`, not {value!r}", context, option)
    return int(value)


def text_options(command: Any) -> Any:
    """Which texts a report shows, and whether with their evidence."""
    for option in (
        click.option("--key", metavar="SOURCE", help="The runs' key, env:VARIABLE or file:PATH; shows the evidence."),
        click.option("--evidence/--no-evidence", default=True, show_default=True, help="Highlight what the key finds."),
        click.option(
            "--texts",
            metavar="N|all",
            default=str(TEXTS),
            show_default=True,
            callback=_number_or_all,
            help="Prompts of each run whose texts are shown.",
        ),
    ):
        command = option(command)
    return command


def _print_schema(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from wmbench.report.document import json_schema

        print_json(json_schema())
        context.exit()


@click.command()
@click.argument("folders", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--out", metavar="FOLDER", help="Where to write the report (default: under `reports` beside the first run)."
)
@text_options
@click.option(
    "--schema", is_flag=True, is_eager=True, expose_value=False, callback=_print_schema, help="Print the JSON Schema."
)
@json_option
@global_options
@click.pass_obj
def report(
    invocation: Invocation,
    /,
    folders: tuple[str, ...],
    out: str | None,
    texts: int,
    evidence: bool,
    key: str | None,
    as_json: bool,
) -> None:
    """Write a report on finished runs (offline HTML page, JSON, CSV, LaTeX, Markdown) and print the table.

    A folder that holds runs stands for all of them. --json prints the report and writes nothing. Evidence needs the
    key that marked the texts; without it they are shown plain.
    """
    document = gathered(folders, invocation.host if evidence else None, texts, key)
    if as_json:
        from wmbench.report import render

        click.echo(render(document, "json"), nl=False)
        return
    print_results(_metrics_files(folders))
    if out:
        write(document, Path(out))
    else:
        write_beside(document, folders)


def gathered(folders: Iterable[str | Path], host: Host | None, texts: int = TEXTS, key: str | None = None) -> Document:
    from wmbench.report.gather import gather

    document = gather(folders, texts=texts, host=host, key=key)
    if host is not None and key is not None:
        for run in document.measured:
            if run.no_evidence:
                note(f"warning: {run.name}: its texts are shown without evidence: {run.no_evidence}")
    return document


def write(document: Document, folder: Path) -> None:
    from wmbench.report import write_report

    for warning in document.warnings:
        note(f"warning: {warning}")
    page, *others = write_report(document, folder)
    megabytes = page.stat().st_size / 1e6
    if megabytes > LARGE_PAGE:
        note(f"warning: the page has {megabytes:.0f} MB and opens slowly; --texts N shows fewer prompts of each run")
    click.echo(f"report: {page} (and {', '.join(path.name for path in others)})")


def write_beside(document: Document, folders: Iterable[str | Path]) -> None:
    """Under `reports` beside the runs, in a folder that other runs do not share."""
    from wmbench.report.folders import point_latest, report_folder

    folder = report_folder(folders)
    write(document, folder)
    point_latest(folder)


def report_after_run(folders: list[Path], host: Host) -> None:
    """What `wmbench run` ends with. A report that fails costs no results: it can be made again."""
    try:
        write_beside(gathered(folders, host), folders)
    except WmbenchError as error:
        note(f"warning: no report was written: {error}")


def print_results(paths: Iterable[Path]) -> None:
    """The table of several runs."""
    from wmbench.bench.table import print_summary
    from wmbench.report.folders import read_metrics

    if results := [read_metrics(path) for path in paths]:
        print_summary(results)


def _metrics_files(folders: Iterable[str]) -> list[Path]:
    from wmbench.report.folders import METRICS, find_runs

    return [folder.path / METRICS for folder in find_runs(folders) if not folder.is_control]
