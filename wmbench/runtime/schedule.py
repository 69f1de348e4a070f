"""When positions are opened, and how many are filled per step.

A schedule reads a row's masks and its clock and answers: which columns compete now (`scope`), how many of them are to
be filled (`budget`), and, where the schedule itself draws them, which (`positions`). It plans from the masks that are
left, so it needs no special case for re-masked cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import torch

from wmbench.runtime.row import Row
from wmbench.runtime.settings import Decoding
from wmbench.types import IntArray


@dataclass(frozen=True, slots=True)
class Plan:
    """What is open for one row at one step."""

    scope: IntArray
    """Masked columns that compete, ascending."""
    budget: int
    """How many of them the native policy fills (at least 1)."""
    positions: IntArray | None = None
    """Set when the schedule draws the positions itself."""
    threshold: float | None = None
    """Fill every column surer than this, if that is more than the budget."""
    extra: int = 0
    """How many the scheme asked for beyond the native ones; `budget` has them in it."""


class Schedule(Protocol):
    def plan(self, row: Row) -> Plan:
        """Plan the next step of a row that still has masks, and advance the row's clock."""


def even_budget(masks: int, steps_left: int) -> int:
    """Masks over the steps left, rounded up. Applied step by step this is LLaDA's rule: the first (masks mod steps)
    steps fill one more than the others."""
    return -(-masks // max(1, steps_left))


@dataclass(frozen=True, slots=True)
class BlockSteps:
    """Blocks from left to right; a block is finished before the next begins (LLaDA; with a threshold: LLaDA2.0)."""

    block_length: int
    from_prompt: bool = False
    tokens_per_step: int = 1
    steps_per_block: int | None = None
    """When given, the masks are spread evenly over this many steps instead."""
    threshold: float | None = None

    def plan(self, row: Row) -> Plan:
        masked = row.masked
        origin = 0 if self.from_prompt else row.start
        block = int(masked[0] - origin) // self.block_length
        scope = masked[masked < origin + (block + 1) * self.block_length]
        if self.steps_per_block is None:
            budget = min(self.tokens_per_step, len(scope))
        else:
            used = row.ticks.get(block, 0)
            row.ticks[block] = used + 1
            if self.threshold is None:
                budget = even_budget(len(scope), self.steps_per_block - used)
            else:  # LLaDA2.0 spreads the whole block, whatever the threshold has already filled
                share, rest = divmod(self.block_length, self.steps_per_block)
                budget = max(1, min(len(scope), share + (used < rest)))
        return Plan(scope, budget, threshold=self.threshold)


@lru_cache(maxsize=16)
def _transfer_shares(steps: int, eps: float) -> tuple[np.float32, ...]:
    """1 - s/t of every step, in float32 as Dream computes it: the quota's rounding depends on it."""
    times = torch.linspace(1, eps, steps + 1)
    return tuple((1 - times[1:] / times[:-1]).numpy())


def _later_shares(row: Row, steps: int, eps: float) -> Iterator[tuple[int, np.float32]]:
    """Ticks of Dream's time and their shares, from the row's clock on, which runs with them; none for the last tick,
    at which all masks are filled."""
    shares = _transfer_shares(steps, eps)
    while (tick := row.ticks.get(0, 0)) < steps - 1:
        row.ticks[0] = tick + 1
        yield tick, shares[tick]
    row.ticks[0] = tick + 1


@dataclass(frozen=True, slots=True)
class BernoulliTime:
    """Dream's `origin`: every mask is filled independently with probability 1 - s/t, all at the last step.

    Positions are drawn before any logits, so steps that fill nothing cost nothing.
    """

    steps: int
    eps: float

    def plan(self, row: Row) -> Plan:
        masked = row.masked
        for tick, share in _later_shares(row, self.steps, self.eps):
            draws = row.random.uniforms("transfer", tick, row.length - row.start)
            chosen = masked[draws[masked - row.start] < share]
            if len(chosen):
                return Plan(masked, len(chosen), positions=chosen)
        return Plan(masked, len(masked), positions=masked)


@dataclass(frozen=True, slots=True)
class QuotaTime:
    """Dream's maskgit_plus / topk_margin / entropy: floor(masks (1 - s/t)) cells of the row, all at the last step."""

    steps: int
    eps: float

    def plan(self, row: Row) -> Plan:
        masked = row.masked
        for _, share in _later_shares(row, self.steps, self.eps):
            quota = int(np.float32(len(masked)) * share)
            if quota > 0:
                return Plan(masked, quota)
        return Plan(masked, len(masked))


def make_schedule(decoding: Decoding) -> Schedule:
    length = decoding.max_new_tokens
    steps = decoding.steps or length
    if decoding.schedule == "origin":
        return BernoulliTime(steps, decoding.eps)
    if decoding.schedule == "quota":
        return QuotaTime(steps, decoding.eps)
    block_length = decoding.block_length or length
    blocks = -(-length // block_length)
    return BlockSteps(
        block_length,
        from_prompt=decoding.block_origin == "prompt",
        steps_per_block=max(1, decoding.steps // blocks) if decoding.steps else None,
        tokens_per_step=decoding.tokens_per_step or 1,
        threshold=decoding.threshold if decoding.schedule == "threshold" else None,
    )
