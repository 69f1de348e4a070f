"""`wmbench run`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, note, print_json, print_table
from wmbench.cli.options import config_from_options, print_plan, run_options
from wmbench.cli.report import print_results, report_after_run
from wmbench.errors import WmbenchError

if TYPE_CHECKING:
    from wmbench.bench.attack_estimate import AttackEstimate
    from wmbench.bench.estimate import Estimate
    from wmbench.bench.pipeline import Outcome
    from wmbench.bench.plan import RunPlan
    from wmbench.bench.stages.base import Run


@click.command()
@run_options
@click.option("--trace", is_flag=True, help="Record every denoising step in trace.jsonl.")
@click.option("--dry-run", is_flag=True, help="Print the resolved plan and what it will cost; write nothing.")
@json_option
@global_options
@click.pass_obj
def run(invocation: Invocation, /, trace: bool, dry_run: bool, as_json: bool, **options: Any) -> int:
    """Generate watermarked texts, attack them, and measure how well they are detected; resumes what is missing.

    Each scheme and dataset has a folder of its own, named by what determines its texts. The same command finds it
    again, does what is missing, and says "already complete" when nothing is.
    """
    from wmbench.bench.plan import resolve_runs
    from wmbench.presets import LONG_PRESETS

    config = config_from_options(**options)
    invocation.warn_about_broken_plugins()
    plans = resolve_runs(config, invocation.host)

    for difference in _decoded_differently(plans):
        note(f"warning: decoded differently, as published, {difference}; -D makes them equal")

    if dry_run and len({plan.backbone.label for plan in plans}) > 1:
        _print_cells(plans, as_json)  # of several models none is loaded to measure what it would cost
        return 0

    # Only now, with every name and setting checked, is torch imported.
    from wmbench.bench.attack_estimate import attack_estimates
    from wmbench.bench.build import Builder
    from wmbench.bench.estimate import estimates, total_minutes
    from wmbench.bench.pipeline import execute_all, prepare_all
    from wmbench.bench.workers import worker_pool
    from wmbench.observers import ProgressObserver

    builder = Builder(invocation.host, note, writes_nothing=dry_run)
    with worker_pool(1 if dry_run else config.workers, invocation.plugin_files) as pool:
        # All of them before the first is executed: a missing key or prompt file must not show up after an hour.
        runs = prepare_all(plans, builder, progress=ProgressObserver(), trace=trace, note=note, executor=pool)
        if dry_run:
            _print_plans(runs, estimates(runs), attack_estimates(runs), as_json)
            return 0
        if options["preset"] in LONG_PRESETS:
            total, *details = total_minutes(runs, config.workers)
            note(f"{len(runs)} runs, {len(_cells(plans))} cells: {total}")
            for line in details:
                note(f"  {line}")
        ends: dict[Run, Outcome | WmbenchError] = {}
        for prepared, end in execute_all(runs):
            ends[prepared] = end
            if isinstance(end, WmbenchError):
                note(f"error: {end}\n  {prepared.plan.title} is left out, the other runs go on")
            elif not as_json:
                _print_outcome(end)
    finished = [end for prepared in runs if not isinstance(end := ends[prepared], WmbenchError)]
    errors = [end for end in ends.values() if isinstance(end, WmbenchError)]
    if as_json:
        print_json({"runs": [_end_fields(prepared, ends[prepared]) for prepared in runs]})
    else:
        print_results(outcome.metrics for outcome in finished if outcome.metrics is not None)
        if any(outcome.metrics for outcome in finished):
            report_after_run([Path(outcome.folder) for outcome in finished], invocation.host)
    failed = any(outcome.failure_rate > config.failure_limit for outcome in finished)
    return max([int(failed), *(error.exit_code for error in errors)])


def _decoded_differently(plans: Sequence[RunPlan]) -> list[str]:
    """Where schemes that will stand in one table differ in more than the mark: on which models, and in what."""
    tables: dict[tuple[str, str], list[RunPlan]] = {}
    for plan in plans:
        tables.setdefault((plan.backbone.label, plan.dataset.label), []).append(plan)
    models: dict[str, dict[str, None]] = {}
    for (backbone, _), members in tables.items():
        differing = []
        for name in type(members[0].decoding).model_fields:
            schemes: dict[str, list[str]] = {}
            for plan in members:
                schemes.setdefault(str(getattr(plan.decoding, name)), []).append(plan.scheme.label)
            if len(schemes) > 1:
                values = " or ".join(f"{value} ({', '.join(labels)})" for value, labels in schemes.items())
                differing.append(f"{name} is {values}")
        if differing:
            models.setdefault("; ".join(differing), {})[backbone] = None
    return [f"on {', '.join(names)}: {difference}" for difference, names in models.items()]


def _cells(plans: Sequence[RunPlan]) -> list[dict[str, str]]:
    """Every text set that gets rates of its own; a control has none."""
    return [
        {
            "backbone": plan.backbone.label,
            "dataset": plan.dataset.label,
            "scheme": plan.scheme.label,
            "attack": attack,
        }
        for plan in plans
        if not plan.is_control
        for attack in ("unattacked", *(attack.label for attack in plan.attacks))
    ]


def _print_cells(plans: Sequence[RunPlan], as_json: bool) -> None:
    cells = _cells(plans)
    if as_json:
        print_json({"runs": [plan.describe() for plan in plans], "cells": cells})
        return
    print_table([tuple(cell.values()) for cell in cells])
    click.echo(f"{len(plans)} runs, {len(cells)} cells; for the cost of one model add --backbone <name>")


def _print_plans(
    runs: Sequence[Run], costs: Sequence[Estimate], attacks: Sequence[AttackEstimate], as_json: bool
) -> None:
    if as_json:
        print_json({"runs": [_plan_fields(*fields) for fields in zip(runs, costs, attacks, strict=True)]})
        return
    from wmbench.bench.estimate import attack_sentence, total_minutes

    for prepared, cost, attacked in zip(runs, costs, attacks, strict=True):
        extra = [("folder", str(prepared.store.folder)), ("cost", str(cost))]
        extra += [("cost of attacks", attack_sentence(attacked))] if prepared.plan.attacks else []
        print_plan(prepared.plan, *extra)
    if runs:
        try:
            total, *details = total_minutes(runs, runs[0].plan.config.workers, costs, attacks)
        except WmbenchError as error:  # null texts that are not there, for instance: the run itself would end here
            note(f"warning: no estimate of the whole: {error}")
            return
        click.echo(f"{f'all {len(runs)} runs' if len(runs) > 1 else 'the run'}, what is left to do: {total}")
        for line in details:
            click.echo(f"  {line}")


def _plan_fields(prepared: Run, cost: Estimate, attacks: AttackEstimate) -> dict[str, Any]:
    estimate = {**cost.as_dict(), "attacks": attacks.as_dict()}
    return {**prepared.plan.describe(), "folder": str(prepared.store.folder), "estimate": estimate}


def _print_outcome(outcome: Outcome) -> None:
    counts = ", ".join(
        f"{name} {tally.done}" + (f" ({tally.failed} failed)" if tally.failed else "")
        for name, tally in outcome.counts.items()
    )
    click.echo(f"{'already complete' if outcome.already_complete else outcome.status}: {outcome.folder} ({counts})")
    if outcome.metrics is None:
        click.echo("  it has no detector, so the run ends here; to the other schemes its texts are null texts")


def _end_fields(prepared: Run, end: Outcome | WmbenchError) -> dict[str, Any]:
    return _error_fields(prepared, end) if isinstance(end, WmbenchError) else _outcome_fields(end)


def _error_fields(prepared: Run, error: WmbenchError) -> dict[str, Any]:
    why = {"message": error.message, "where": error.where, "why": error.why, "next_step": error.hint}
    return {"folder": str(prepared.store.folder), "status": "error", "error": why}


def _outcome_fields(outcome: Outcome) -> dict[str, Any]:
    return {
        "folder": outcome.folder,
        "status": outcome.status,
        "error": None,
        "already_complete": outcome.already_complete,
        "dropped": outcome.dropped,
        "metrics": str(outcome.metrics) if outcome.metrics else None,
        "counts": {name: tally.as_dict() for name, tally in outcome.counts.items()},
    }
