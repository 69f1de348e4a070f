"""What a run will cost: measured on a few real steps, then extrapolated."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass

from wmbench.bench.stages.base import Run
from wmbench.run_hooks import RunHooks
from wmbench.runtime.settings import Decoding
from wmbench.types import Commit

_MEASURED_STEPS = 8
_MEASURED_SECONDS = 20.0


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
