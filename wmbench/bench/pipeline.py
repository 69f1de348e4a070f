"""The pipeline: stages in a row, each reading the previous one's file and appending to its own.

A stage is complete or not, judged by its files alone; the pipeline works on those that are not. So the same command
resumes after any interruption, and says "already complete" when nothing is missing. A new stage is a module in
`stages/` with a class like the others', added to `STAGES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from wmbench.bench.attack_checks import require_attacks, workable
from wmbench.bench.build import Builder
from wmbench.bench.jsonl import cut_torn_line
from wmbench.bench.plan import RunPlan
from wmbench.bench.prompts import prompts_hash, require_room
from wmbench.bench.provenance import machine, versions
from wmbench.bench.resolved import spec_hash
from wmbench.bench.stages.attack import AttackStage
from wmbench.bench.stages.base import Run, Stage, Tally
from wmbench.bench.stages.calibrate import FILE as CALIBRATION
from wmbench.bench.stages.calibrate import CalibrateStage
from wmbench.bench.stages.controls import ControlsStage
from wmbench.bench.stages.decode import DecodeStage
from wmbench.bench.stages.detect import DetectStage
from wmbench.bench.stages.features import FeaturesStage
from wmbench.bench.stages.filter import FilterStage, drop_counts
from wmbench.bench.stages.lengths import LengthsStage
from wmbench.bench.stages.metrics import FILE as METRICS
from wmbench.bench.stages.metrics import MetricsStage
from wmbench.bench.stages.prompts import PromptsStage
from wmbench.bench.stages.quality import QualityStage
from wmbench.bench.stages.score import ScoreStage
from wmbench.bench.store import Owner, RunStore
from wmbench.bench.workers import Executor
from wmbench.disk import disk_errors, require_writable
from wmbench.errors import ConfigError, IntegrityError, Interrupted, PluginError, WmbenchError
from wmbench.observers import ProgressObserver
from wmbench.quality import require_judge_folder
from wmbench.settings import Settings

STAGES: tuple[Stage, ...] = (
    PromptsStage(),
    DecodeStage(),
    FilterStage(),
    AttackStage(),
    QualityStage(),
    FeaturesStage(),
    ScoreStage(),
    CalibrateStage(),
    DetectStage(),
    LengthsStage(),
    ControlsStage(),
    MetricsStage(),
)
"""A scheme without a detector has nothing to do from the features on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended."""

    folder: str
    status: Literal["success", "partial"]
    already_complete: bool
    counts: dict[str, Tally]
    dropped: dict[str, int]
    """Samples that do not count, by reason."""
    metrics: Path | None
    """None for a scheme without a detector."""

    @property
    def failure_rate(self) -> float:
        """The worst share of failed items in any file."""
        return max((tally.failed / tally.total for tally in self.counts.values() if tally.total), default=0.0)


def prepare(
    plan: RunPlan,
    builder: Builder,
    *,
    progress: ProgressObserver | None = None,
    observers: Sequence[object] = (),
    trace: bool = False,
    note: Callable[[str], None] = lambda _: None,
    clean: Run | None = None,
    executor: Executor | None = None,
) -> Run:
    """Load what identifies the run (prompts, key, model), find its folder, and refuse a level it could not decide."""
    samples = builder.prompts(plan)
    key = builder.key(plan)
    backbone = builder.backbone(plan.backbone)
    require_room(samples, backbone, plan.decoding)
    identity = plan.identity(
        backbone=backbone.fingerprint,
        codec=backbone.codec.fingerprint,
        prompts=prompts_hash(samples),
        key_id=key.id if key else None,
    )
    store = RunStore(plan.folder(identity))
    run = Run(
        plan, builder, store, identity, samples, key, backbone, progress, tuple(observers), trace, note,
        clean, executor,
    )  # fmt: skip
    if plan.config.judge:
        require_judge_folder(plan.config.judge)
    with suppress(PluginError):  # a scheme that cannot score fails by itself, without the others
        if run.detector is not None:
            run.detector.require_level(key, plan.config.calibration_texts, plan.config.alpha)
    return run


def prepare_all(plans: Sequence[RunPlan], builder: Builder, **options: Any) -> list[Run]:
    """All runs of a comparison, in their order; each knows the control on its prompts. Attacks are built once, to see
    that they can work."""
    for plan in plans:
        builder.require_usable_key(plan)
    for output in () if builder.writes_nothing else {plan.config.output for plan in plans}:
        require_writable(output)
    every = {attack.label: attack for plan in plans for attack in plan.attacks}
    able = {attack.label for attack in workable(list(every.values()), builder)}
    plans = [replace(plan, attacks=tuple(a for a in plan.attacks if a.label in able)) for plan in plans]
    controls: dict[tuple[str, str], Run] = {}
    runs: dict[int, Run] = {}
    for number, plan in sorted(enumerate(plans), key=lambda pair: not pair[1].is_control):
        origin = plan.backbone.label, plan.dataset.label
        clean = None if plan.is_control else controls.get(origin)
        runs[number] = prepare(plan, builder, **options, clean=clean)
        if plan.is_control:
            controls.setdefault(origin, runs[number])
    ordered = [runs[number] for number in range(len(plans))]
    require_attacks(ordered)
    return ordered


def execution_order(runs: Sequence[Run]) -> list[Run]:
    """Controls first: their clean texts are null texts to the others."""
    return sorted(runs, key=lambda run: not run.plan.is_control)


def execute_all(runs: Sequence[Run]) -> Iterator[tuple[Run, Outcome | WmbenchError]]:
    """Every run with its end, controls first. One that fails leaves the others alone; the only one raises."""
    draw_nulls(runs)
    for run in execution_order(runs):
        try:
            yield run, execute(run)
        except (PluginError, ConfigError, IntegrityError) as error:
            if len(runs) == 1:
                raise
            yield run, error


def draw_nulls(runs: Sequence[Run]) -> None:
    """Of runs that will need them, before any is decoded: that there are too few must not show after an hour."""
    drawn: set[str] = set()
    for run in runs:
        if run.store.derived.path(CALIBRATION).exists() or not _can_score(run):
            continue
        for nulls in run.nulls:
            if nulls.digest not in drawn:
                drawn.add(nulls.digest)
                run.library.texts(nulls)


def _can_score(run: Run) -> bool:
    try:
        return run.detector is not None
    except PluginError:  # its run fails by itself, without the others
        return False


def execute(run: Run, stages: Sequence[Stage] = STAGES) -> Outcome:
    """Do what is missing. Whatever happens, the folder says how it ended and can be resumed."""
    with run.store.locked():
        document = _document(run)
        _check_same_work(run, document)
        status: Literal["success", "partial"] = "success"
        complete = all(stage.is_complete(run) for stage in stages)
        if run.trace and DecodeStage().is_complete(run):
            run.note("all samples are already there: nothing is decoded, so no trace is written")
        try:
            if not complete:
                run.store.write_run("started", document)
                _log_invocation(run)
                for stage in stages:
                    if not stage.is_complete(run):
                        stage.work(run)
        except KeyboardInterrupt:
            _write_end(run, "cancelled", document)
            raise Interrupted(
                "interrupted", where=str(run.store.folder), hint="run the same command again: it resumes"
            ) from None
        except BaseException as error:
            reason = error.message if isinstance(error, WmbenchError) else type(error).__name__
            _write_end(run, "error", {**document, "error": reason})
            raise
        counts = {name: tally for stage in stages for name, tally in stage.tallies(run).items()}
        if any(tally.failed for tally in counts.values()):
            status = "partial"
        document["counts"] = {name: tally.as_dict() for name, tally in counts.items()}
        document["dropped"] = dropped = drop_counts(run)
        previous = run.store.read_run()
        if previous is None or {**previous, **document, "status": status} != previous:
            run.store.write_run(status, document)
    metrics = run.store.folder / METRICS if run.detector is not None else None
    return Outcome(str(run.store.folder), status, complete, counts, dropped, metrics)


def _write_end(run: Run, status: Literal["cancelled", "error"], document: Settings) -> None:
    with suppress(IntegrityError):  # the disk may be the reason for the end; the reason itself is reported
        run.store.write_run(status, document)


def _document(run: Run) -> Settings:
    """run.json without status and counts. No time, process or speed: those would differ after an interruption."""
    plan = run.plan
    return {
        "spec_hash": spec_hash(run.identity),
        "spec": run.identity,
        "arguments": {"passed": plan.config.passed, "defaulted": plan.config.defaulted},
        "scheme": {
            **plan.scheme.describe(),
            "alg_id": plan.scheme.info.alg_id,
            "key_use": plan.key_use,
            "status": plan.scheme.info.status,
            "approximations": plan.approximations,
        },
        "attacks": {attack.label: attack.describe() for attack in plan.attacks},
        "versions": versions(plan.plugins),
        "platform": machine(),
        "fingerprints": {
            "backbone": run.backbone.fingerprint,
            "codec": run.backbone.codec.fingerprint,
            "prompts": run.identity["prompts"],
        },
        "key_id": run.identity["key_id"],
        "filters": plan.filters.model_dump(mode="json"),
        "nulls": [null.identity for null in run.nulls] if run.detector is not None else [],
        "counts": {},
        "dropped": {},
        "error": None,
    }


def _check_same_work(run: Run, document: Settings) -> None:
    """Refuse to mix attacks of different settings in one file; warn when the software has changed meanwhile."""
    previous: dict[str, Any] = run.store.read_run() or {}
    for label, before in previous.get("attacks", {}).items():
        if not run.store.attacked(label).path.exists():
            continue
        attack = document["attacks"].setdefault(label, before)  # one of an earlier command is still part of the run
        if before["settings"] != attack["settings"]:
            raise IntegrityError(
                f"attacked/{label}.jsonl was made with other settings of the attack",
                where=str(run.store.folder),
                why=f"then {before['settings']}, now {attack['settings']}",
                hint=f"delete attacked/{label}.jsonl to attack again",
            )
    for name, before in previous.get("versions", {}).items():
        if (present := document["versions"].get(name)) not in (None, before):
            run.note(f"warning: this run was begun with {name} {before}, now it is {present}; texts may differ")


def _log_invocation(run: Run) -> None:
    owner = Owner.this_process()
    with disk_errors(run.store.timings.path):
        cut_torn_line(run.store.timings.path)  # else this line would be glued to what a killed process left
    run.store.timings.append(
        {
            "event": "invocation",
            "started": owner.started,
            "pid": owner.pid,
            "host": owner.host,
            "batch_size": run.plan.config.batch_size,
            "threads": run.threads,
        }
    )
