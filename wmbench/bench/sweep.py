"""A scheme measured over a grid of settings: every point is an ordinary run, so that points are resumed and shared.

Points with equal decoding share one clean control, all points share null texts, and points that differ only in
settings of the detector share their texts, too. A folder then holds the detection of its latest point; the sweep's own
files hold that of all.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from wmbench.bench.build import Builder
from wmbench.bench.measure import FPR_TARGETS, target_name
from wmbench.bench.pipeline import draw_nulls, execute, prepare_all
from wmbench.bench.plan import RunPlan, resolve_runs
from wmbench.bench.resolved import slug, spec_hash
from wmbench.bench.stages.base import Run
from wmbench.bench.stages.quality import judge_of
from wmbench.config import ALL, HOW_NOT_WHAT, Choice, RunConfig
from wmbench.disk import make_folder, pretty_json, write_atomic
from wmbench.errors import ConfigError, UnknownNameError, WmbenchError
from wmbench.host import Host
from wmbench.settings import Settings, merged
from wmbench.types import SchemeInfo

SCHEMA_VERSION: Final = 1
CONTROL: Final = "none"
DECODING: Final = "decoding."
Point = Mapping[str, Any]
"""Value by setting; settings of the decoding begin with `decoding.`"""
Answers = Mapping[str, Sequence[int]]
"""Token ids by sample id."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction of the grid: a setting, or several that move together."""

    names: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]
    """One tuple per point, one entry per name."""

    @classmethod
    def of(cls, names: str, values: Sequence[Any]) -> Axis:
        parts = tuple(name.strip() for name in names.split(","))
        if not all(parts) or len(set(parts)) < len(parts):
            raise ConfigError(f"axis {names!r}: name settings, each once", hint="for instance candidates=[8,16]")
        if not isinstance(values, (list, tuple)) or not values:
            raise ConfigError(f"axis {names!r} has no values", hint=f"write a list: {names}=[...]")
        rows = [(value,) if len(parts) == 1 else value for value in values]
        for row in rows:
            if not isinstance(row, (list, tuple)) or len(row) != len(parts):
                raise ConfigError(
                    f"axis {names!r}: a value does not fit its settings",
                    why=f"{len(parts)} settings, got {row!r}",
                    hint="write lists of as many values as there are settings",
                )
        return cls(parts, tuple(tuple(row) for row in rows))


@dataclass(frozen=True, slots=True)
class Grid:
    """All combinations of the axes."""

    name: str
    axes: tuple[Axis, ...]

    @classmethod
    def of(cls, name: str, axes: Mapping[str, Sequence[Any]]) -> Grid:
        made = tuple(Axis.of(names, values) for names, values in axes.items())
        settings = [setting for axis in made for setting in axis.names]
        if len(set(settings)) < len(settings):
            raise ConfigError("a setting is swept twice", why=", ".join(settings), hint="join it into one axis")
        return cls(name, made)

    def points(self) -> list[Point]:
        rows = itertools.product(*(axis.values for axis in self.axes))
        names = [name for axis in self.axes for name in axis.names]
        return [dict(zip(names, itertools.chain(*row), strict=True)) for row in rows]


def named_grids(scheme: SchemeInfo, names: Iterable[str]) -> list[Grid]:
    """Of the scheme's published sweeps; `all` means all."""
    if not scheme.sweeps:
        raise ConfigError(
            f"scheme {scheme.name!r} brings no sweeps", hint="sweep its settings with --vary NAME=[VALUES]"
        )
    wanted = list(names)
    for name in wanted:
        if name != "all" and name not in scheme.sweeps:
            raise UnknownNameError(
                f"sweep of {scheme.name}", name, scheme.sweeps, hint="sweep settings of your own with --vary"
            )
    chosen = list(scheme.sweeps) if "all" in wanted else wanted
    return [Grid.of(name, scheme.sweeps[name]) for name in dict.fromkeys(chosen)]


@dataclass(frozen=True)
class PlannedPoint:
    """One point of the grid on one dataset."""

    settings: Point
    plan: RunPlan
    control: RunPlan


def plan_sweep(config: RunConfig, grid: Grid, host: Host) -> list[PlannedPoint]:
    """Every point resolved and checked; nothing is loaded yet."""
    names = [scheme.name for scheme in config.schemes]
    if len(names) != 1 or ALL in names or len(config.backbones) > 1:
        chosen = [*names, *(backbone.name for backbone in config.backbones)]
        why, hint = f"chosen: {', '.join(chosen) or 'none'}", "name one --scheme, and at most one --backbone"
        raise ConfigError("a sweep varies one scheme on one backbone", why=why, hint=hint)
    plans = [(settings, plan) for settings in grid.points() for plan in resolve_runs(_at(config, settings), host)]
    if any(plan.is_control for _, plan in plans):
        raise ConfigError(f"scheme {names[0]!r} is a control", why="its texts carry no mark whose detection could vary")
    return [PlannedPoint(settings, plan, control_beside(plan, host)) for settings, plan in plans]


def control_beside(plan: RunPlan, host: Host) -> RunPlan:
    """Clean texts for the same prompts, decoded exactly as the plan's, whatever its scheme publishes."""
    update = {"schemes": [Choice(name=CONTROL)], "decoding": plan.decoding.model_dump(mode="json")}
    controls = resolve_runs(plan.config.model_copy(update=update), host)
    return next(control for control in controls if control.dataset.label == plan.dataset.label)


def _at(config: RunConfig, settings: Point) -> RunConfig:
    scheme = config.schemes[0]
    own = {name: value for name, value in settings.items() if not name.startswith(DECODING)}
    decoding = {name.removeprefix(DECODING): value for name, value in settings.items() if name.startswith(DECODING)}
    return config.model_copy(
        update={
            "schemes": [Choice(name=scheme.name, params={**scheme.params, **own})],
            "decoding": merged(config.decoding, decoding),
        }
    )


@dataclass(frozen=True)
class PreparedPoint:
    """What identifies its runs is loaded, and its level can be decided."""

    planned: PlannedPoint
    control: Run
    run: Run


def prepare_sweep(planned: Sequence[PlannedPoint], builder: Builder, **options: Any) -> list[PreparedPoint]:
    """All points before the first is executed: what one of them lacks must not show up after hours."""
    prepared = []
    for point in planned:
        try:
            control, run = prepare_all([point.control, point.plan], builder, **options)
        except WmbenchError as error:
            error.where = "; ".join([f"at {shown(point.settings)}", *([error.where] if error.where else [])])
            raise
        prepared.append(PreparedPoint(point, control, run))
    return prepared


def run_sweep(points: Sequence[PreparedPoint], note: Callable[[str], None] = lambda _: None) -> Iterator[Settings]:
    """The record of every point, as soon as it is measured. Each control is executed once."""
    reference: dict[str, Answers] = {}
    draw_nulls([prepared.run for prepared in points])
    for number, prepared in enumerate(points, start=1):
        point, run = prepared.planned, prepared.run
        note(f"point {number} of {len(points)}: {shown(point.settings)}")
        cleaned, outcome = execute(prepared.control), execute(run)
        tokens = {record["id"]: record["token_ids"] for record in run.store.samples.read()}
        first = reference.setdefault(point.plan.dataset.label, tokens)
        yield {
            "settings": dict(point.settings),
            "dataset": point.plan.dataset.label,
            "folder": outcome.folder,
            "approximations": point.plan.approximations,
            "failed": max(outcome.failure_rate, cleaned.failure_rate),
            "cost": _cost(run),
            "same_tokens": _same(first, tokens),
            "metrics": json.loads(outcome.metrics.read_bytes()) if outcome.metrics else None,
        }


def _cost(run: Run) -> Settings:
    """Per token: what was sent through the trunk and the LM head."""
    records = run.store.samples.read()
    tokens = sum(len(record["token_ids"]) for record in records)
    names = {"forward_rows": "rows", "forward_tokens": "positions", "head_rows": "head_rows"}
    totals = {short: sum(record["cost"][name] for record in records) for name, short in names.items()}
    return {f"{short}_per_token": total / max(1, tokens) for short, total in totals.items()}


def _same(first: Answers, tokens: Answers) -> float | None:
    """Share of tokens that are those of the first point, over the answers that both have (with retries or topping up
    each point draws its own); None where these have other lengths."""
    shared = [(first[name], tokens[name]) for name in first if name in tokens]
    if not shared or any(len(one) != len(other) for one, other in shared):
        return None
    pairs = [pair for both in shared for pair in zip(*both, strict=True)]
    return sum(a == b for a, b in pairs) / max(1, len(pairs))


def shown(settings: Point) -> str:
    return " ".join(f"{name}={_short(value)}" for name, value in settings.items()) or "the settings as given"


def _short(value: Any) -> str:
    return "null" if value is None else str(value).replace(" ", "")


# --- results ---------------------------------------------------------------------------------------------------


_RESOLVED: Final = {
    "schemes", "backbones", "datasets", "decoding", "seed", "retries",
    "prf", "key", "attacks", "filters", "nulls", "judge",
}  # fmt: skip
"""Fields whose resolved values a point has elsewhere: two ways to say one thing count as one, and so do two places of
one key."""


def sweep_folder(grid: Grid, points: Sequence[PreparedPoint]) -> Path:
    """Named by all that determines its figures; the same command finds it again."""
    planned = points[0].planned.plan
    label = "_".join(slug(name).replace("_", "-") for name in (planned.scheme.label, grid.name))
    found = spec_hash({"points": [_determined_by(point) for point in points]})
    return planned.config.output / "sweeps" / f"{label}_{planned.backbone.label}_{found}"


def _determined_by(point: PreparedPoint) -> Settings:
    run, plan, judge = point.run, point.run.plan, judge_of(point.run)
    return {
        "point": dict(point.planned.settings),
        "texts": run.identity,
        "dataset": plan.dataset.label,
        "scheme": plan.scheme.dump(),
        "filters": plan.filters.model_dump(mode="json"),
        "attacks": [attack.describe() for attack in plan.attacks],
        "nulls": [nulls.identity for nulls in run.nulls],
        "judge": judge if isinstance(judge, str) else [judge.name, judge.identity],
        "asked": plan.config.model_dump(mode="json", exclude={*HOW_NOT_WHAT, *_RESOLVED}),
    }


def document(grid: Grid, planned: Sequence[PlannedPoint], points: Sequence[Settings]) -> Settings:
    plan = planned[0].plan
    return {
        "schema_version": SCHEMA_VERSION,
        "sweep": grid.name,
        "scheme": plan.scheme.label,
        "alg_id": plan.scheme.info.alg_id,
        "backbone": plan.backbone.label,
        "axes": [list(axis.names) for axis in grid.axes],
        "points": list(points),
    }


def flat_rows(result: Mapping[str, Any]) -> Iterator[Settings]:
    """One row per point and attack, for the CSV file, the table and the charts."""
    for point in result["points"]:
        metrics = point["metrics"] or {}
        price = (metrics.get("quality") or {}).get("delta_log_perplexity") or {}
        head = {
            **{name: _short(value) for name, value in point["settings"].items()},
            "dataset": point["dataset"],
            **point["cost"],
            **{f"price{end}": price.get(name) for end, name in _INTERVAL.items()},
            "same_tokens": point["same_tokens"],
        }
        for cell in metrics.get("cells", []):
            row = {**head, "attack": cell["attack"], "n": cell["n"]}
            if cell["n"]:
                row |= {f"auc{end}": cell["auc"][name] for end, name in _INTERVAL.items()}
                for target in FPR_TARGETS:
                    found = cell["tpr"][target_name(target)]["threshold"]
                    values = {f"tpr_{target:g}{end}": found and found[name] for end, name in _INTERVAL.items()}
                    row |= values
            yield row


_INTERVAL: Final = {"": "estimate", "_low": "low", "_high": "high"}


def write_results(folder: Path, result: Mapping[str, Any]) -> None:
    make_folder(folder)
    write_atomic(folder / "sweep.json", pretty_json(result))
    rows = list(flat_rows(result))
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    write_atomic(folder / "sweep.csv", text.getvalue().encode())
