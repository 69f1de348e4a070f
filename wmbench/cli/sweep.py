"""`wmbench sweep`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, note, print_json
from wmbench.cli.options import config_from_options, run_options
from wmbench.errors import ConfigError

if TYPE_CHECKING:
    from wmbench.bench.sweep import Grid
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
    "--sweep", "named", metavar="NAME", multiple=True, help="Sweep that the scheme brings; `all` means all of them."
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
    from wmbench.bench.sweep import plan_sweep, shown

    config = config_from_options(**options)
    invocation.warn_about_broken_plugins()
    grids = _grids(config, invocation, vary, named)
    planned = [(grid, plan_sweep(config, grid, invocation.host)) for grid in grids]
    if dry_run:
        for grid, points in planned:
            click.echo(f"{grid.name}: {len(points)} points")
            for point in points:
                click.echo(f"  {point.plan.dataset.label}: {shown(point.settings)}")
        return 0

    from wmbench.bench.build import Builder
    from wmbench.bench.sweep import document, run_sweep, sweep_folder, write_results
    from wmbench.bench.sweep_view import print_sweep
    from wmbench.bench.workers import worker_pool
    from wmbench.disk import write_atomic
    from wmbench.observers import ProgressObserver
    from wmbench.plots import HINT
    from wmbench.report.command import command_line
    from wmbench.report.sweep import sweep_page

    builder, results, failed = Builder(invocation.host, note), [], False
    for grid, points in planned:
        with worker_pool(config.workers, invocation.plugin_files) as pool:
            measured = list(run_sweep(points, builder, note, progress=ProgressObserver(), executor=pool))
        failed |= any(point["failed"] > config.failure_limit for point in measured)
        result = document(grid, points, measured)
        folder = sweep_folder(config, grid, points)
        write_results(folder, result)
        swept = [word for axis in vary for word in ("--vary", axis)] or ["--sweep", grid.name]
        arguments = {"passed": config.passed, "defaulted": config.defaulted}
        page, has_charts = sweep_page(result, command_line(arguments, invocation.plugin_files, ["sweep", *swept]))
        write_atomic(folder / "sweep.html", page.encode())
        results.append({**result, "folder": str(folder)})
        if not as_json:
            print_sweep(result)
            click.echo(f"written: {folder}" + ("" if has_charts else f" ({HINT})"))
    if as_json:
        print_json({"sweeps": results})
    return int(failed)


def _grids(config: RunConfig, invocation: Invocation, vary: tuple[str, ...], named: tuple[str, ...]) -> list[Grid]:
    from wmbench.bench.sweep import Grid, named_grids
    from wmbench.settings import parse_overrides

    if bool(vary) == bool(named):
        raise ConfigError("say what to sweep", hint="either --vary NAME=[VALUES], or --sweep NAME")
    if named:
        if len(config.schemes) != 1:
            raise ConfigError("a sweep varies one scheme", hint="name it with --scheme")
        return named_grids(invocation.host.schemes[config.schemes[0].name].info, named)
    axes = parse_overrides(vary, "--vary")
    return [Grid.of("-".join(axes), axes)]
