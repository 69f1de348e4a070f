"""Schedules: LLaDA's budgets (golden), Dream's Bernoulli and quota times, LLaDA2.0's threshold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wmbench.runtime.randomness import SampleRandom
from wmbench.runtime.row import Row
from wmbench.runtime.schedule import BlockSteps, Plan, Schedule, make_schedule
from wmbench.runtime.settings import Decoding
from wmbench.types import Sample

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "llada_schedule.json").read_text())
MASK = 2


def new_row(length: int, sample_id: str = "s", prompt: int = 7) -> Row:
    return Row(Sample(sample_id, ""), [5] * prompt, length, MASK, SampleRandom(0, sample_id))


def run(schedule: Schedule, row: Row) -> list[Plan]:
    """Fill what the schedule asks for, leftmost first, until nothing is left."""
    plans = []
    while len(row.masked):
        plan = schedule.plan(row)
        columns = plan.scope[: plan.budget] if plan.positions is None else plan.positions
        row.fill(columns, np.full(len(columns), 9))
        plans.append(plan)
    return plans


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda c: f"{c['masked']} masks, {c['steps']} steps")
def test_block_budgets_equal_the_published_ones(case: dict[str, Any]) -> None:
    plans = run(BlockSteps(case["masked"], steps_per_block=case["steps"]), new_row(case["masked"]))
    # Published loops also run the steps that have nothing left to do; here they cost nothing and do not exist.
    assert [plan.budget for plan in plans] == [count for count in case["transfers"] if count]


def test_block_schedule_finishes_a_block_before_the_next() -> None:
    row = new_row(64)
    plans = run(make_schedule(Decoding(max_new_tokens=64, block_length=32, steps=10)), row)
    assert [plan.budget for plan in plans] == [7, 7, 6, 6, 6] * 2
    assert all((plan.scope < row.start + 32).all() for plan in plans[:5])


def test_short_last_block() -> None:
    plans = run(make_schedule(Decoding(max_new_tokens=30, block_length=25)), new_row(30))
    assert [plan.budget for plan in plans] == [1] * 30
    assert [len(plan.scope) for plan in plans] == [*range(25, 0, -1), *range(5, 0, -1)]


def test_tokens_per_step_leaves_the_remainder_for_the_end() -> None:
    plans = run(make_schedule(Decoding(max_new_tokens=25, block_length=25, tokens_per_step=4)), new_row(25))
    assert [plan.budget for plan in plans] == [4, 4, 4, 4, 4, 4, 1]


def test_blocks_counted_from_the_prompt_share_its_tail() -> None:
    plan = BlockSteps(8, from_prompt=True).plan(new_row(20, prompt=5))
    assert plan.scope.tolist() == [5, 6, 7]


def test_budget_is_replanned_after_remasking() -> None:
    row = new_row(10)
    schedule = make_schedule(Decoding(max_new_tokens=10, block_length=10, steps=5))
    for _ in range(4):
        plan = schedule.plan(row)
        row.fill(plan.scope[: plan.budget], np.full(plan.budget, 9))
    row.give_back(np.array([7, 8, 9]))
    assert schedule.plan(row).budget == 5  # the last step of the block fills everything that is left


def test_quota_time_is_zero_then_one_then_two() -> None:
    plans = run(make_schedule(Decoding(max_new_tokens=300, schedule="quota")), new_row(300))
    # 300 steps: the first fills nothing and is skipped; 1, 1, ..., 1 and 2 at the last.
    assert [plan.budget for plan in plans] == [1] * 298 + [2]


def test_bernoulli_time_has_the_binomial_law() -> None:
    schedule = make_schedule(Decoding(max_new_tokens=300, schedule="origin"))
    runs = [run(schedule, new_row(300, f"s{i}")) for i in range(40)]
    steps = np.array([len(plans) for plans in runs])
    counts = np.concatenate(
        [[len(plan.scope) for plan in plans[:0]] + [plan.budget for plan in plans] for plans in runs]
    )
    assert abs(steps.mean() - 190) < 3  # backbone facts: 190 +- 5 non-empty steps of 300
    assert counts.sum() == 40 * 300
    # Poisson(1) given at least one: P(1) = 0.582, P(2) = 0.291
    assert abs((counts == 1).mean() - 0.582) < 0.02
    assert abs((counts == 2).mean() - 0.291) < 0.02


def test_bernoulli_time_fills_everything_at_the_last_step() -> None:
    plans = run(make_schedule(Decoding(max_new_tokens=50, schedule="origin", steps=3)), new_row(50))
    assert plans[-1].positions is not None
    assert sum(plan.budget for plan in plans) == 50


def test_threshold_schedule_carries_its_threshold() -> None:
    plan = make_schedule(Decoding(max_new_tokens=32, schedule="threshold", block_length=32)).plan(new_row(32))
    assert (plan.threshold, plan.budget) == (0.95, 1)


def test_threshold_schedule_spreads_the_whole_block_however_many_masks_are_left() -> None:
    row = new_row(32, prompt=20)  # blocks counted from the prompt: the first has 12 masks of 32
    schedule = BlockSteps(32, from_prompt=True, steps_per_block=10, threshold=0.9)
    assert [plan.budget for plan in run(schedule, row)][:4] == [4, 4, 3, 1]  # 32 over 10 steps: 4, 4, 3, 3, ...


def test_inconsistent_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="not both"):
        Decoding(steps=10, tokens_per_step=2)
    with pytest.raises(ValueError, match="multiple"):
        Decoding(max_new_tokens=40, block_length=10, steps=7)
    with pytest.raises(ValueError, match="does not apply"):
        Decoding(schedule="origin", tokens_per_step=2)
