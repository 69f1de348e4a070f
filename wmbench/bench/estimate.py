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

from wmbench.bench.attack_estimate import AttackEstimate, attack_estimates, summed
from wmbench.bench.deadline import Deadline, TimeIsUp
from wmbench.bench.resolved import spec_hash
from wmbench.bench.stages.base import Run
from wmbench.bench.stages.lengths import lengths_of
from wmbench.bench.stages.metrics import FILE as METRICS
from wmbench.run_hooks import RunHooks
from wmbench.runtime.settings import Decoding
from wmbench.types import Commit

if TYPE_CHECKING:
    from wmbench.runtime.backbone import Backbone
    from wmbench.runtime.row import Row
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
    """Of decoding alone."""

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


def total_minutes(
    runs: Sequence[Run],
    workers: int = 1,
    costs: Sequence[Estimate] | None = None,
    attacked: Sequence[AttackEstimate] | None = None,
) -> list[str]:
    """Lines on how long all runs will take: what is left to decode and to attack, and the features of all texts.
    `costs` and `attacked` where they are known already, one per run."""
    unfinished = {run: left for run in runs if (left := run.wanted - len(run.store.samples.read())) > 0}
    known = dict(zip(runs, costs, strict=True) if costs else zip(unfinished, estimates(list(unfinished)), strict=True))
    shares = (known[run].minutes / known[run].samples * left for run, left in unfinished.items())
    decoding = sum(shares) / workers
    features = _feature_minutes(runs)
    attacks = summed(attack_estimates(runs) if attacked is None else attacked)
    parts = [f"{duration(decoding)} decoding", f"{duration(features)} features"]
    parts += [f"{duration(attacks.minutes)} attacks"] if attacks.tried else []
    total = f"about {duration(decoding + features + attacks.minutes)} on this machine"
    return [f"{total} ({', '.join(parts)}; controls come on top)", f"attacks: {attack_sentence(attacks)}"]


def attack_sentence(found: AttackEstimate) -> str:
    """What is in the estimate of attacks, and what is not."""
    parts = []
    if found.tried:
        about = "more than" if found.is_at_least else "about"
        how = "cut off after some seconds" if found.is_at_least else "tried on a few texts, upper bound with workers"
        parts.append(f"{about} {duration(found.minutes)} for {', '.join(found.tried)} ({how})")
    if found.free:
        parts.append(f"{found.free} local, next to no time")
    if found.unknown:
        parts.append(f"not estimated: {', '.join(found.unknown)} (another model, or an endpoint)")
    return "; ".join(parts) or "nothing left to do"


def duration(minutes: float) -> str:
    """Of this machine, in the unit that one would say it in."""
    if minutes < 1:
        return f"{60 * minutes:.2g} seconds" if minutes else "no time"
    if minutes < 1.5:
        return "a minute"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"


def _feature_minutes(runs: Sequence[Run]) -> float:
    """Of null texts, once for all detectors that share them, and of each run's own texts."""
    texts: dict[str, int] = {}
    detectors: dict[str, Run] = {}
    for run in runs:
        if run.detector is not None:
            kind = run.detector.features_digest
            if detectors.setdefault(kind, run) is run:
                texts[kind] = _null_texts_left(run)
            texts[kind] += _own_texts_left(run)
    return sum(_seconds_per_text(run) * texts[kind] for kind, run in detectors.items() if texts[kind]) / 60


def _null_texts_left(run: Run) -> int:
    assert run.detector is not None
    sides = ((spec, side, size) for spec in run.nulls for side, size in spec.sizes.items())
    return sum(size for spec, side, size in sides if not run.library.has_features(spec, side, run.detector))


def _own_texts_left(run: Run) -> int:
    """Marked and clean ones as they are, marked ones after each attack and at each length."""
    if (run.store.folder / METRICS).exists():
        return 0
    sets = 2 + len(run.plan.attacks) + len(lengths_of(run))
    return run.wanted * sets


def _seconds_per_text(run: Run) -> float:
    assert run.detector is not None
    probes = [null.text for null in islice(run.builder.null_texts(run.nulls[0].source, _PROBES), _PROBES)]
    begun = time.perf_counter()
    for _ in run.detector.features(probes):
        pass
    return (time.perf_counter() - begun) / max(1, len(probes))


# --- one answer ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _AnswerCost:
    forwards: float
    seconds: float
    basis: Basis


def _extrapolated(run: Run, cost: _AnswerCost) -> Estimate:
    steps, samples = planned_steps(run.plan.decoding), run.wanted
    return Estimate(samples, steps, cost.forwards * samples, cost.seconds * samples / 60, cost.basis)


@dataclass(frozen=True, slots=True)
class _Progress:
    """What whole steps have come to; a step that was cut off is not in it."""

    answers: float
    forwards: int
    seconds: float


def _answer_cost(run: Run, seconds: float) -> _AnswerCost:
    """Decode the first steps of one batch under the real scheme; nothing is written."""
    from wmbench.bench.counting import count_cost
    from wmbench.runtime.loop import decode, make_engine

    plan, decoding = run.plan, run.plan.decoding
    scheme = run.builder.scheme(plan, run.backbone.codec, run.key)
    hooks = RunHooks(scheme, plan.scheme.entry.plugin, codec=run.backbone.codec)
    hooks.require("decode_step", "generate")
    engine = make_engine(cast("Backbone", Deadline(run.backbone, seconds)), decoding)
    batch = run.samples[: plan.config.batch_size]
    done: list[_Progress] = []
    begun, steps = time.perf_counter(), 0

    def note(answers: float) -> None:
        done.append(_Progress(answers, engine.counters.forward_rows, time.perf_counter() - begun))

    def measured(step: Step) -> Commit:
        nonlocal steps
        if steps:  # a step is over when the next one begins: its tokens are on the canvas then
            note(_answered(step.rows, steps, decoding))
        if steps == _STEPS:
            raise TimeIsUp
        steps += 1
        return hooks.decode_step(step)

    with suppress(TimeIsUp):
        list(decode(batch, engine, decoding, measured, hooks.begin, seed=plan.config.seed, batch_size=len(batch)))
        note(len(batch))  # a batch that needs fewer steps than are measured
    if done:
        forwards, seconds = _whole_batch(done[0], done[-1], len(batch))
        return _AnswerCost(forwards / len(batch), seconds / len(batch), "timed")
    per_position = (time.perf_counter() - begun) / engine.counters.forward_tokens
    counted = count_cost(plan, run.backbone.attention, run.backbone.logit_shift)
    tokens = decoding.max_new_tokens
    return _AnswerCost(counted.forwards * tokens, counted.positions * tokens * per_position, "counted")


def _whole_batch(first: _Progress, last: _Progress, answers: int) -> tuple[float, float]:
    """Forwards and seconds of all answers. The first step reads the prompts and warms up: it happens only once."""
    if last.answers == first.answers:
        return first.forwards / first.answers * answers, first.seconds / first.answers * answers
    left = (answers - first.answers) / (last.answers - first.answers)
    return (
        first.forwards + left * (last.forwards - first.forwards),
        first.seconds + left * (last.seconds - first.seconds),
    )


def _answered(rows: Sequence[Row], steps: int, decoding: Decoding) -> float:
    """Answers in fractions: by steps, or by tokens where one step fills a whole block."""
    filled = sum(len(row.generated) - len(row.masked) for row in rows)
    return max(steps * len(rows) / planned_steps(decoding), filled / decoding.max_new_tokens)
