"""`wmbench tune`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, note, print_json, print_table
from wmbench.cli.options import config_from_options, run_options

if TYPE_CHECKING:
    from wmbench.bench.tune import Goal

_TARGETS = {"quality": (0.34, 0.03), "tpr": (0.97, 0.01)}
"""Default target and tolerance."""


@click.command()
@run_options
@click.option("--parameter", metavar="NAME", default="delta", show_default=True, help="Setting to search.")
@click.option(
    "--match",
    type=click.Choice(list(_TARGETS)),
    default="quality",
    show_default=True,
    help="quality: delta log-perplexity to clean texts; tpr: share of unattacked texts detected.",
)
@click.option("--target", type=float, help="What to reach (default: 0.34 nats per token, or a TPR of 0.97).")
@click.option("--tolerance", type=float, help="How close to the target is close enough (default: 0.03, or 0.01).")
@click.option(
    "--range", "borders", type=float, nargs=2, metavar="LOW HIGH", help="Where to search (default: x/4 to 4x)."
)
@click.option("--evaluations", type=click.IntRange(2), default=8, show_default=True, help="Maximum number of runs.")
@click.option("--fpr", type=float, default=0.01, show_default=True, help="False-positive rate of the TPR.")
@json_option
@global_options
@click.pass_obj
def tune(
    invocation: Invocation,
    /,
    parameter: str,
    match: Any,
    target: float | None,
    tolerance: float | None,
    borders: tuple[float, float] | None,
    evaluations: int,
    fpr: float,
    as_json: bool,
    **options: Any,
) -> int:
    """Search one setting of a scheme to a target quality or detection rate.

    Every point is an ordinary run beside a clean one, without attacks: the same command resumes. The path of the search
    is printed and written to tunings/ in the output folder. The exit code is 1 when the target was not reached.
    """
    if options["attacks"] or options["attack_settings"]:
        raise click.UsageError("tune looks at unattacked texts: leave --attack out.")
    config = config_from_options(**{**options, "no_attacks": True})
    invocation.warn_about_broken_plugins()

    from wmbench.bench.build import Builder
    from wmbench.bench.tune import Goal, Search, Tuning
    from wmbench.bench.workers import worker_pool
    from wmbench.observers import ProgressObserver

    usual_target, usual_tolerance = _TARGETS[match]
    goal = Goal(
        match,
        usual_target if target is None else target,
        usual_tolerance if tolerance is None else tolerance,
        fpr,
    )
    tuning = Tuning(config, invocation.host, parameter, goal)
    tuning.configured()  # a misspelt setting is reported before anything is loaded
    low, high = borders or tuning.borders()
    if low >= high:
        raise click.UsageError("The range is empty: give the lower border first.")
    if tuning.whole and not (low.is_integer() and high.is_integer()):
        raise click.UsageError(f"{parameter} takes whole numbers: give such borders.")
    tuning.require(low, high)
    search = Search(low, high, goal.target, goal.tolerance, evaluations, tuning.whole)
    builder, progress = Builder(invocation.host, note), ProgressObserver()
    path: list[dict[str, Any]] = []

    with worker_pool(config.workers, invocation.plugin_files) as pool:

        def measure(value: float) -> float:
            note(f"{parameter} = {value:g}")
            path.append(tuning.measure(value, builder, progress=progress, note=note, executor=pool))
            return float(path[-1]["value"])

        best = search.run(measure)
    result = {
        "parameter": parameter,
        "best": best,
        "option": tuning.option(best),
        "matched": search.matched,
        "unit": goal.unit,
        "path": path,
    }
    file = tuning.write(result)
    if as_json:
        print_json({**result, "file": str(file)})
    else:
        _print_path(result, goal, fpr)
        click.echo(f"written: {file}")
    failed = any(point["failed"] > config.failure_limit for point in path)
    return int(failed or not search.matched)


def _print_path(result: dict[str, Any], goal: Goal, fpr: float) -> None:
    name = result["parameter"]
    rows = [(name, "delta log-perplexity", f"TPR at {fpr:.1%} FPR", "texts", "folder")]
    for point in result["path"]:
        rows.append(
            (
                f"{point['at']:g}",
                _interval(point["quality"], "+.3f"),
                _interval(point["tpr"], ".3f"),
                str(point["kept"]),
                point["folder"],
            )
        )
    print_table(rows)
    best = next(point for point in result["path"] if point["at"] == result["best"])
    reached = "" if result["matched"] else " (not reached)"
    click.echo(f"{result['option']}: {goal.unit} {best['value']:.3f}, target {goal.target:g}{reached}")


def _interval(found: dict[str, Any] | None, form: str) -> str:
    return f"{found['estimate']:{form}} [{found['low']:{form}}, {found['high']:{form}}]" if found else "n/a"
