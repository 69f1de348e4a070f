"""What a run will cost: measured on a few real steps, then extrapolated."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from wmbench.bench.stages.base import Run
from wmbench.run_hooks import RunHooks
from wmbench.runtime.settings import Decoding
from wmbench.types import Commit

_MEASURED_STEPS = 8
_MEASURED_SECONDS = 20.0
_PROBES = 32
"""Null texts whose features are timed."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """An extrapolation from the first steps of the first batch."""

    samples: int
    steps_per_sample: int
    forwards: float
    """Canvases through the trunk, all samples."""
    minutes: float

    def as_dict(self) -> dict[str, float]:
        return {
            "samples": self.samples,
            "steps_per_sample": self.steps_per_sample,
            "forwards": round(self.forwards),
            "minutes": round(self.minutes, 3),
        }

    def __str__(self) -> str:
        return (
            f"about {self.forwards:.0f} forwards ({self.samples} samples x {self.steps_per_sample} steps), "
            f"{self.minutes:.2g} minutes of decoding on this machine"
        )


class _Enough(Exception):
    pass


def planned_steps(decoding: Decoding) -> int:
    """Denoising steps of one sample under its schedule; `threshold` may need fewer."""
    if decoding.steps is not None:
        return decoding.steps
    return -(-decoding.max_new_tokens // (decoding.tokens_per_step or 1))


def total_minutes(runs: Sequence[Run], workers: int = 1) -> str:
    """A sentence on how long all runs will take: decoding, and the features of null texts. One run per scheme and
    backbone is measured and stands for its other data sets; attacks and metrics are not counted."""
    decoding = features = 0.0
    kinds: dict[tuple[str, str], Estimate] = {}
    texts: dict[str, float] = {}
    for run in runs:
        left = run.wanted - len(run.store.samples.read())
        kind = run.plan.scheme.label, run.plan.backbone.label
        if left > 0:
            if kind not in kinds:
                kinds[kind] = estimate(run)
            decoding += kinds[kind].minutes / kinds[kind].samples * left
        if run.detector is not None and run.detector.features_digest not in texts:
            texts[run.detector.features_digest] = minutes = _feature_minutes(run)
            features += minutes
    total = decoding / workers + features
    return f"about {total:.0f} minutes on this machine ({decoding / workers:.0f} decoding, {features:.0f} null texts)"


def _feature_minutes(run: Run) -> float:
    """Of the null texts whose features are not there yet."""
    assert run.detector is not None
    needed = sum(
        size
        for spec in run.nulls
        for side, size in spec.sizes.items()
        if not run.library.has_features(spec, side, run.detector)
    )
    probes = [null.text for null in islice(run.builder.null_texts(run.nulls[0].source, _PROBES), _PROBES)]
    begun = time.perf_counter()
    for _ in run.detector.features(probes):
        pass
    return (time.perf_counter() - begun) / len(probes) * needed / 60 if probes else 0.0


def estimate(run: Run) -> Estimate:
    """Time a few steps of one batch under the real scheme; nothing is written."""
    from wmbench.runtime.loop import decode, make_engine
    from wmbench.runtime.step import Step

    plan = run.plan
    scheme = run.builder.scheme(plan, run.backbone.codec, run.key)
    hooks = RunHooks(scheme, plan.scheme.entry.plugin, codec=run.backbone.codec)
    hooks.require("decode_step", "generate")
    engine = make_engine(run.backbone, plan.decoding)
    steps = row_steps = 0
    begun = time.perf_counter()

    def counted(step: Step) -> Commit:
        nonlocal steps, row_steps
        if steps >= _MEASURED_STEPS or time.perf_counter() - begun > _MEASURED_SECONDS:
            raise _Enough
        commit = hooks.decode_step(step)
        steps += 1
        row_steps += len(step.rows)
        return commit

    batch = run.samples[: plan.config.batch_size]
    with suppress(_Enough):
        list(decode(batch, engine, plan.decoding, counted, hooks.begin, seed=plan.config.seed, batch_size=len(batch)))
    seconds = time.perf_counter() - begun
    needed = planned_steps(plan.decoding) * run.wanted
    return Estimate(
        run.wanted,
        planned_steps(plan.decoding),
        engine.counters.forward_rows / row_steps * needed,
        seconds / row_steps * needed / 60,
    )
