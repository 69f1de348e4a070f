"""`wmbench run`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wmbench.cli.options import config_from_options, print_plan, run_options
from wmbench.cli.session import Session, global_options, json_option, note, print_json
from wmbench.errors import PluginError

if TYPE_CHECKING:
    from wmbench.bench.estimate import Estimate
    from wmbench.bench.pipeline import Outcome
    from wmbench.bench.stages.base import Run


@click.command()
@run_options
@click.option("--trace", is_flag=True, help="Record every denoising step in trace.jsonl.")
@click.option("--dry-run", is_flag=True, help="Print the resolved plan and what it will cost; write nothing.")
@json_option
@global_options
@click.pass_obj
def run(session: Session, /, trace: bool, dry_run: bool, as_json: bool, **options: Any) -> int:
    """Generate watermarked texts and attack them; resumes what is missing.

    Each scheme and dataset has a folder of its own, named by what determines its texts. The same command finds it
    again, does what is missing, and says "already complete" when nothing is.
    """
    from wmbench.bench.plan import resolve_runs

    config = config_from_options(**options)
    session.warn_about_broken_plugins()
    plans = resolve_runs(config, session.host)

    if len({plan.decoding for plan in plans}) > 1:
        note("warning: published settings differ, so these schemes are decoded differently; -D makes them equal")

    # Only now, with every name and setting checked, is torch imported.
    from wmbench.bench.build import Builder
    from wmbench.bench.estimate import estimate
    from wmbench.bench.pipeline import execute, prepare
    from wmbench.observers import ProgressObserver

    builder = Builder(session.host, note)
    # All of them before the first is executed: a missing key or prompt file must not show up after an hour.
    runs = [prepare(plan, builder, progress=ProgressObserver(), trace=trace, note=note) for plan in plans]
    if dry_run:
        costs = [estimate(prepared) for prepared in runs]
        if as_json:
            print_json({"runs": [_plan_fields(*pair) for pair in zip(runs, costs, strict=True)]})
        else:
            for prepared, cost in zip(runs, costs, strict=True):
                print_plan(prepared.plan, ("folder", str(prepared.store.folder)), ("cost", str(cost)))
        return 0

    outcomes: list[Outcome] = []
    exit_code = 0
    for prepared in runs:
        try:
            outcome = execute(prepared)
        except PluginError as error:
            if len(runs) == 1:
                raise
            note(f"error: {error}\n  {prepared.plan.title} is left out, the other runs go on")
            exit_code = error.exit_code
            continue
        outcomes.append(outcome)
        if outcome.failure_rate > config.failure_limit:
            exit_code = exit_code or 1
        if not as_json:
            _print_outcome(outcome)
    if as_json:
        print_json({"runs": [_outcome_fields(outcome) for outcome in outcomes]})
    return exit_code


def _plan_fields(prepared: Run, cost: Estimate) -> dict[str, Any]:
    return {**prepared.plan.describe(), "folder": str(prepared.store.folder), "estimate": cost.as_dict()}


def _print_outcome(outcome: Outcome) -> None:
    counts = ", ".join(
        f"{name} {tally.done}" + (f" ({tally.failed} failed)" if tally.failed else "")
        for name, tally in outcome.counts.items()
    )
    click.echo(f"{'already complete' if outcome.already_complete else outcome.status}: {outcome.folder} ({counts})")


def _outcome_fields(outcome: Outcome) -> dict[str, Any]:
    return {
        "folder": outcome.folder,
        "status": outcome.status,
        "already_complete": outcome.already_complete,
        "counts": {name: tally.as_dict() for name, tally in outcome.counts.items()},
    }
