"""`wmbench compare`"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from wmbench.cli.invocation import global_options, json_option, note

if TYPE_CHECKING:
    from wmbench.report.compare import Comparison, Difference


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@click.option("--different-nulls", is_flag=True, help="Compare although the null sets differ; the result is flagged.")
@json_option
@global_options
def compare(first: str, second: str, different_nulls: bool, as_json: bool) -> None:
    """Compare two runs on the prompts they share, with paired intervals: A minus B, for every attack both have.

    Prompts are resampled as pairs, and so are the null texts. Runs that stand on different null sets are refused.
    """
    from wmbench.errors import ConfigError
    from wmbench.report.compare import compare as compare_runs
    from wmbench.report.folders import find_runs

    runs = find_runs([first, second])
    if len(runs) != 2:
        raise ConfigError(f"two runs are compared, not {len(runs)}", hint="name two run folders")
    found = compare_runs(*runs, different_nulls=different_nulls)
    if as_json:
        click.echo(found.model_dump_json(indent=2))
    else:
        _print(found)


def _print(found: Comparison) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    for flag in found.flags:
        note(f"warning: {flag}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("attack", "figure", "n", "A", "B", "A - B, 95% interval", ""):
        table.add_column(name, justify="right" if name in ("n", "A", "B") else "left", overflow="fold")
    attack = None
    for item in found.differences:
        if item.attack != attack:
            table.add_section()
        table.add_row(item.attack if item.attack != attack else "", *_row(item), style=_style(item))
        attack = item.attack
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=110)
    console.print(f"A = {found.first}\nB = {found.second}", soft_wrap=True)
    console.print(table)


def _row(item: Difference) -> list[str]:
    if item.difference is None or item.first is None or item.second is None:
        return [item.metric, str(item.n), "n/a", "n/a", "the level is out of reach of a calibration", ""]
    d = item.difference
    between = f"{d.estimate:+.3f} [{d.low:+.3f}, {d.high:+.3f}]"
    return [item.metric, str(item.n), f"{item.first:.3f}", f"{item.second:.3f}", between, _WORDS[item.verdict]]


_WORDS = {
    "first is better": "A is better",
    "second is better": "B is better",
    "no clear difference": "no clear difference",
}


def _style(item: Difference) -> str:
    return "" if item.verdict in ("first is better", "second is better") else "dim"
