"""`wmbench compare`"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from wmbench.cli.invocation import global_options, json_option, note, print_json
from wmbench.console import open_console

Figure = Mapping[str, Any]


@click.command()
@click.argument("runs", metavar="A B", nargs=-1)
@click.option("--different-nulls", is_flag=True, help="Compare even if the null sets differ; the result is flagged.")
@json_option
@global_options
def compare(runs: tuple[str, ...], different_nulls: bool, as_json: bool) -> None:
    """Compare two runs on the prompts they share, with paired intervals: A minus B, for every attack both have.

    Prompts are resampled as pairs, and so are the null texts. Runs with different null sets are refused.
    """
    from wmbench.bench.comparison import compare_runs

    if len(runs) != 2:
        raise click.UsageError(f"Two runs are compared, but {len(runs)} were given. Name two run folders.")
    first, second = map(Path, runs)
    found = compare_runs(first, second, any_nulls=different_nulls)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: Mapping[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    for flag in found["flags"]:
        note(f"warning: {flag}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("attack", "figure", "n", "A", "B", "A - B, 95% interval", ""):
        table.add_column(name, justify="right" if name in ("n", "A", "B") else "left", overflow="fold")
    for cell in found["cells"]:
        table.add_section()
        if not cell["n"]:
            table.add_row(cell["attack"], "no shared prompt", "0")
        for number, (name, figure) in enumerate(_figures(cell)):
            verdict = _verdict(figure, cell["n"]) if figure else ""
            style = "" if "is better" in verdict else "dim"
            table.add_row("" if number else cell["attack"], name, str(cell["n"]), *_row(figure), verdict, style=style)
    console = open_console(110)
    console.print(f"A = {found['first']['folder']}\nB = {found['second']['folder']}", soft_wrap=True)
    console.print(table)
    for side, letter in (("only_first", "A"), ("only_second", "B")):
        if found[side]:
            console.print(f"only in {letter}: {', '.join(found[side])}", style="dim", soft_wrap=True)


def _figures(cell: Mapping[str, Any]) -> Iterator[tuple[str, Figure | None]]:
    if cell["n"]:
        yield "AUC", cell["auc"]
        for target, rules in cell["tpr"].items():
            for rule, figure in rules.items():
                yield f"TPR at {100 * float(target):g}% FPR, {rule}", figure


def _row(figure: Figure | None) -> list[str]:
    if figure is None:
        return ["n/a", "n/a", "out of reach"]
    between = f"{figure['estimate']:+.3f} [{figure['low']:+.3f}, {figure['high']:+.3f}]"
    return [f"{figure['first']:.3f}", f"{figure['second']:.3f}", between]


def _verdict(figure: Figure, prompts: int) -> str:
    """Only what the interval bears out, and only where it can have a width."""
    from wmbench.bench.measure import FEWEST_TEXTS

    if prompts < FEWEST_TEXTS:
        return "too few prompts"
    if figure["low"] > 0:
        return "A is better"
    return "B is better" if figure["high"] < 0 else "no clear difference"
