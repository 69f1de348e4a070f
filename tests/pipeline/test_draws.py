"""Retries and topping up: what is answered next, and that neither batches nor interruptions matter."""

from __future__ import annotations

import random

import pytest

from wmbench.bench.draws import attempts, next_draws, prompt_id
from wmbench.types import Sample

PROMPTS = [Sample(f"p{i}", f"prompt {i}") for i in range(12)]


def ids(samples: list[Sample]) -> list[str]:
    return [sample.id for sample in samples]


def finished(fate: dict[str, str | None], *, wanted: int | None, retries: int, rng: random.Random) -> list[str]:
    """Answer until nothing is missing, each time only some of what is asked for, in any order."""
    reasons: dict[str, str | None] = {}
    while draws := next_draws(PROMPTS, reasons, wanted=wanted, retries=retries):
        for sample in rng.sample(draws, rng.randint(1, len(draws))):
            reasons[sample.id] = fate[sample.id]
    return sorted(reasons)


def test_plainly_every_prompt_once() -> None:
    assert ids(next_draws(PROMPTS, {}, wanted=None, retries=0)) == [f"p{i}" for i in range(12)]
    assert ids(next_draws(PROMPTS[:2], {"p0": "short"}, wanted=None, retries=0)) == ["p1"]
    assert next_draws(PROMPTS[:2], {"p0": "short", "p1": None}, wanted=None, retries=0) == []


def test_a_dropped_answer_is_drawn_again_with_other_randomness() -> None:
    one = PROMPTS[:1]
    assert ids(next_draws(one, {"p0": "short"}, wanted=None, retries=2)) == ["p0~1"]
    assert ids(next_draws(one, {"p0": "short", "p0~1": "repetitive"}, wanted=None, retries=2)) == ["p0~2"]
    assert next_draws(one, {"p0": "short", "p0~1": None}, wanted=None, retries=2) == []
    assert next_draws(one, {"p0": "short", "p0~1": "short", "p0~2": "empty"}, wanted=None, retries=2) == []
    assert next_draws(one, {"p0": "duplicate_text"}, wanted=None, retries=2) == []
    assert [prompt_id(sample.id) for sample in attempts(PROMPTS[0], 3)] == ["p0"] * 4
    assert prompt_id("a~b") == "a~b"


def test_topping_up_takes_the_next_prompts_and_never_too_many() -> None:
    assert ids(next_draws(PROMPTS, {}, wanted=3, retries=0)) == ["p0", "p1", "p2"]
    after = {"p0": None, "p1": "short", "p2": None}
    assert ids(next_draws(PROMPTS, after, wanted=3, retries=0)) == ["p3"]
    assert next_draws(PROMPTS, {**after, "p3": None}, wanted=3, retries=0) == []
    assert next_draws(PROMPTS[:3], after, wanted=3, retries=0) == []  # used up


@pytest.mark.parametrize(("wanted", "retries"), [(None, 0), (None, 3), (5, 0), (4, 2)])
def test_the_set_of_answers_does_not_depend_on_the_order_of_work(wanted: int | None, retries: int) -> None:
    for seed in range(40):
        luck = random.Random(seed)
        every = [attempt.id for prompt in PROMPTS for attempt in attempts(prompt, retries)]
        fate = {i: luck.choice([None, None, "short", "repetitive", "duplicate_text"]) for i in every}
        results = {tuple(finished(fate, wanted=wanted, retries=retries, rng=random.Random(s))) for s in range(4)}
        assert len(results) == 1
