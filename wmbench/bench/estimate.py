"""What runs will cost, found out within seconds: a few real steps are timed, and extrapolated.

A step that takes longer than that (a scheme that tries whole blocks on a large canvas) is cut off. Its forwards are
then counted on a tiny stand-in, and multiplied by what a position has taken on the real model.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from wmbench.bench.resolved import spec_hash
from wmbench.bench.stages.base import Run
from wmbench.run_hooks import RunHooks
from wmbench.runtime.settings import Decoding
from wmbench.types import Commit

if TYPE_CHECKING:
    from wmbench.runtime.backbone import Backbone
    from wmbench.runtime.step import Step

_STEPS: Final = 8
_SECONDS: Final = 12.0
"""For all timed steps of a command together."""
_LEAST_SECONDS: Final = 1.0
_PROBES: Final = 16
"""Null texts whose features are timed."""
Basis = Literal["timed", "counted"]


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of decoding alone: attacks, null texts and metrics come on top."""

    samples: int
    steps_per_sample: int
    forwards: float
    """Canvases through the trunk, all samples."""
    minutes: float
    basis: Basis
    """timed: extrapolated from real steps; counted: forwards of a stand-in, at the speed of the real model."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "samples": self.samples,
            "steps_per_sample": self.steps_per_sample,
            "forwards": round(self.forwards),
            "minutes": round(self.minutes, 3),
            "basis": self.basis,
        }

    def __str__(self) -> str:
        how = "timed on a few steps" if self.basis == "timed" else "a step is long, so counted: an upper bound"
        return f"about {self.forwards:.0f} forwards, estimated {duration(self.minutes)} of decoding ({how})"


def planned_steps(decoding: Decoding) -> int:
    """Denoising steps of one sample under its schedule; `threshold` may need fewer."""
    if decoding.steps is not None:
        return decoding.steps
    return -(-decoding.max_new_tokens // (decoding.tokens_per_step or 1))


def estimates(runs: Sequence[Run]) -> list[Estimate]:
    """One per run. Runs that differ in their prompts only are measured once."""
    kinds = [spec_hash({**run.identity, "prompts": ""}) for run in runs]
    seconds = max(_LEAST_SECONDS, _SECONDS / max(1, len(set(kinds))))
    known: dict[str, _AnswerCost] = {}
    for kind, run in zip(kinds, runs, strict=True):
        if kind not in known:
            known[kind] = _answer_cost(run, seconds)
    return [_extrapolated(run, known[kind]) for kind, run in zip(kinds, runs, strict=True)]


def total_minutes(runs: Sequence[Run], workers: int = 1) -> str:
    """A sentence on how long all runs will take: what is left to decode, and the features of null texts."""
    unfinished = {run: left for run in runs if (left := run.wanted - len(run.store.samples.read())) > 0}
    costs = estimates(list(unfinished))
    decoding = sum(cost.minutes / cost.samples * left for cost, left in zip(costs, unfinished.values(), strict=True))
    detectors = {run.detector.features_digest: run for run in runs if run.detector is not None}
    features = sum(_feature_minutes(run) for run in detectors.values())
    parts = f"{duration(decoding / workers)} decoding, {duration(features)} null texts"
    return (
        f"about {duration(decoding / workers + features)} on this machine ({parts}; attacks and controls come on top)"
    )


def duration(minutes: float) -> str:
    """Of this machine, in the unit that one would say it in."""
    if minutes < 1:
        return f"{60 * minutes:.2g} seconds" if minutes else "no time"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"


def _feature_minutes(run: Run) -> float:
    """Of the null texts whose features are not there yet."""
    assert run.detector is not None
    needed = sum(
        size
        for spec in run.nulls
        for side, size in spec.sizes.items()
        if not run.library.has_features(spec, side, run.detector)
    )
    if not needed:
        return 0.0
    probes = [null.text for null in islice(run.builder.null_texts(run.nulls[0].source, _PROBES), _PROBES)]
    begun = time.perf_counter()
    for _ in run.detector.features(probes):
        pass
    return (time.perf_counter() - begun) / len(probes) * needed / 60 if probes else 0.0


# --- one answer ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _AnswerCost:
    forwards: float
    seconds: float
    basis: Basis


def _extrapolated(run: Run, cost: _AnswerCost) -> Estimate:
    steps, samples = planned_steps(run.plan.decoding), run.wanted
    return Estimate(samples, steps, cost.forwards * samples, cost.seconds * samples / 60, cost.basis)


class _TimeIsUp(BaseException):
    """Not an Exception: those that pass through a hook are taken for the plugin's own."""


class _Deadline:
    """A backbone that refuses further forwards when the time is up; the first one always gets through."""

    def __init__(self, backbone: Backbone, seconds: float) -> None:
        self._backbone = backbone
        self._seconds = seconds
        self._begun: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backbone, name)

    def hidden(self, windows: Any) -> Any:
        if self._begun is None:
            self._begun = time.perf_counter()
        elif time.perf_counter() - self._begun > self._seconds:
            raise _TimeIsUp
        return self._backbone.hidden(windows)


def _answer_cost(run: Run, seconds: float) -> _AnswerCost:
    """Decode the first steps of one batch under the real scheme; nothing is written."""
    from wmbench.bench.counting import count_cost
    from wmbench.runtime.loop import decode, make_engine

    plan, decoding = run.plan, run.plan.decoding
    scheme = run.builder.scheme(plan, run.backbone.codec, run.key)
    hooks = RunHooks(scheme, plan.scheme.entry.plugin, codec=run.backbone.codec)
    hooks.require("decode_step", "generate")
    engine = make_engine(cast("Backbone", _Deadline(run.backbone, seconds)), decoding)
    batch = run.samples[: plan.config.batch_size]
    steps = forwards = 0
    answers = elapsed = 0.0  # answers in fractions, as far as whole steps have come
    begun = time.perf_counter()

    def measured(step: Step) -> Commit:
        nonlocal steps, forwards, answers, elapsed
        if steps:  # a step is over when the next one begins: its tokens are on the canvas then
            filled = sum(len(row.generated) - len(row.masked) for row in step.rows)
            by_steps = steps * len(step.rows) / planned_steps(decoding)
            answers = max(by_steps, filled / decoding.max_new_tokens)  # one step may fill a whole block
            forwards, elapsed = engine.counters.forward_rows, time.perf_counter() - begun
        if steps == _STEPS:
            raise _TimeIsUp
        steps += 1
        return hooks.decode_step(step)

    with suppress(_TimeIsUp):
        list(decode(batch, engine, decoding, measured, hooks.begin, seed=plan.config.seed, batch_size=len(batch)))
        # The whole batch in fewer steps than are measured.
        answers, forwards, elapsed = float(len(batch)), engine.counters.forward_rows, time.perf_counter() - begun
    if answers:
        return _AnswerCost(forwards / answers, elapsed / answers, "timed")
    per_position = (time.perf_counter() - begun) / engine.counters.forward_tokens
    counted = count_cost(plan, run.backbone.attention, run.backbone.logit_shift)
    tokens = decoding.max_new_tokens
    return _AnswerCost(counted.forwards * tokens, counted.positions * tokens * per_position, "counted")
