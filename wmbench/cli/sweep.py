"""`wmbench sweep`"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, note, print_json
from wmbench.cli.options import config_from_options, run_options
from wmbench.errors import ConfigError, IntegrityError, PluginError

if TYPE_CHECKING:
    from wmbench.bench.sweep import Grid, PlannedPoint
    from wmbench.config import RunConfig


@click.command()
@click.option(
    "--vary",
    metavar="NAME=[VALUES]",
    multiple=True,
    help="Setting to sweep, with a list of values; may be repeated: all combinations. decoding.NAME is a decoding "
    "setting; NAME,NAME=[[1,2],[3,4]] moves two together.",
)
@click.option(
    "--sweep", "named", metavar="NAME", multiple=True, help="Sweep that the scheme defines; `all` means all of them."
)
@click.option("--dry-run", is_flag=True, help="Print the points of the grid; write nothing.")
@run_options
@json_option
@global_options
@click.pass_obj
def sweep(
    invocation: Invocation,
    /,
    vary: tuple[str, ...],
    named: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Measure a scheme over a grid of settings.

    Every point is an ordinary run in a folder of its own: points are resumed, and share null texts and a clean control.
    Points that differ only in how texts are detected share their texts. Results go to <output>/sweeps.
    """
    from wmbench.bench.sweep import plan_sweep

    config = config_from_options(**options)
    invocation.warn_about_broken_plugins()
    grids = _grids(config, invocation, vary, named)
    planned = [(grid, plan_sweep(config, grid, invocation.host)) for grid in grids]
    if dry_run:
        _print_points(planned, as_json)
        return 0

    from wmbench.bench.build import Builder
    from wmbench.bench.sweep import document, prepare_sweep, run_sweep, sweep_folder
    from wmbench.bench.sweep_view import print_sweep
    from wmbench.bench.workers import worker_pool
    from wmbench.observers import ProgressObserver
    from wmbench.plots import HINT
    from wmbench.report.command import command_line

    arguments = {"passed": config.passed, "defaulted": config.defaulted}
    builder, results, exit_code = Builder(invocation.host, note), [], 0
    with worker_pool(config.workers, invocation.plugin_files) as pool:
        shared = {"note": note, "progress": ProgressObserver(), "executor": pool}
        prepared = [prepare_sweep(points, builder, **shared) for _, points in planned]
        for (grid, points), ready in zip(planned, prepared, strict=True):
            try:
                measured = list(run_sweep(ready, note))
            except (PluginError, ConfigError, IntegrityError) as error:
                if len(planned) == 1:
                    raise
                note(f"error: {error}\n  sweep {grid.name} is left out, the other sweeps go on")
                exit_code = max(exit_code, error.exit_code)
                continue
            failed = any(point["failed"] > config.failure_limit for point in measured)
            exit_code = max(exit_code, int(failed))
            result, folder = document(grid, points, measured), sweep_folder(grid, ready)
            swept = [word for axis in vary for word in ("--vary", axis)] or ["--sweep", grid.name]
            command = command_line(arguments, invocation.plugin_files, ["sweep", *swept])
            has_charts = _write(folder, result, command)
            results.append({**result, "folder": str(folder)})
            if not as_json:
                print_sweep(result)
                click.echo(f"written: {folder}" + ("" if has_charts else f" ({HINT})"))
    if as_json:
        print_json({"sweeps": results})
    return exit_code


def _print_points(planned: Sequence[tuple[Grid, Sequence[PlannedPoint]]], as_json: bool) -> None:
    from wmbench.bench.sweep import shown

    if as_json:
        grids = [
            {
                "sweep": grid.name,
                "points": [{"settings": dict(p.settings), "dataset": p.plan.dataset.label} for p in points],
            }
            for grid, points in planned
        ]
        print_json({"sweeps": grids})
        return
    for grid, points in planned:
        click.echo(f"{grid.name}: {len(points)} points")
        for point in points:
            click.echo(f"  {point.plan.dataset.label}: {shown(point.settings)}")


def _write(folder: Path, result: Mapping[str, Any], command: str) -> bool:
    """The files of a sweep; whether its page has charts."""
    from wmbench.bench.sweep import write_results
    from wmbench.disk import write_atomic
    from wmbench.report.sweep import sweep_page

    write_results(folder, result)
    page, has_charts = sweep_page(result, command)
    write_atomic(folder / "sweep.html", page.encode())
    return has_charts


def _grids(config: RunConfig, invocation: Invocation, vary: tuple[str, ...], named: tuple[str, ...]) -> list[Grid]:
    from wmbench.bench.sweep import Grid, named_grids
    from wmbench.config import ALL
    from wmbench.settings import parse_overrides

    if bool(vary) == bool(named):
        raise ConfigError("say what to sweep", hint="either --vary NAME=[VALUES], or --sweep NAME")
    if named:
        if len(config.schemes) != 1 or config.schemes[0].name == ALL:
            raise ConfigError("a sweep varies one scheme", hint="name it with --scheme")
        return named_grids(invocation.host.schemes[config.schemes[0].name].info, named)
    axes = parse_overrides(vary, "--vary")
    return [Grid.of("-".join(axes), axes)]
