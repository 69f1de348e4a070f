"""The search itself: a bracket that shrinks, whatever the curve."""

from __future__ import annotations

import math
from typing import Any

import pytest

from wmbench.bench.tune import Goal, Search
from wmbench.errors import ConfigError


def test_finds_the_target_on_a_rising_curve() -> None:
    search = Search(0.5, 8.0, 0.34, 0.01, evaluations=12)
    best = search.run(lambda x: 0.05 * x**1.5)
    assert search.matched
    assert 0.05 * best**1.5 == pytest.approx(0.34, abs=0.01)
    assert list(search.path)[:2] == [0.5, 8.0]
    assert len(search.path) < 12


def test_values_can_be_typed_again() -> None:
    search = Search(1 / 3, 9.0, 0.34, 1e-9, evaluations=8)
    search.run(lambda x: 0.05 * x**1.5)
    assert len(search.path) > 3
    assert all(value == float(f"{value:g}") for value in list(search.path)[2:])


def test_finds_the_target_on_a_falling_curve() -> None:
    search = Search(0.1, 2.0, 0.5, 0.005, evaluations=12)
    assert math.exp(-search.run(lambda x: math.exp(-x))) == pytest.approx(0.5, abs=0.005)


def test_a_step_is_closed_in_on() -> None:
    """A rate that jumps: no value matches, and the nearest one is returned when the evaluations are used up."""
    search = Search(0.0, 1.0, 0.5, 0.01, evaluations=9)
    search.run(lambda x: float(x > 0.3))
    below = max(x for x, y in search.path.items() if y == 0)
    above = min(x for x, y in search.path.items() if y == 1)
    assert not search.matched
    assert below <= 0.3 < above
    assert above - below < 0.02


def test_whole_numbers_end_side_by_side() -> None:
    search = Search(1, 16, 5.5, 0.1, evaluations=20, whole=True)
    assert search.run(lambda x: x) in (5, 6)
    assert all(x == int(x) for x in search.path)
    assert {5, 6} <= set(search.path)
    assert len(search.path) < 10


@pytest.mark.parametrize(("target", "nearest"), [(3.0, 2.0), (-1.0, 1.0)])
def test_a_target_out_of_reach_costs_two_evaluations(target: float, nearest: float) -> None:
    search = Search(1.0, 2.0, target, 0.1, evaluations=10)
    assert search.run(lambda x: x) == nearest
    assert not search.matched
    assert len(search.path) == 2


def test_a_border_that_matches_ends_the_search() -> None:
    search = Search(1.0, 2.0, 1.0, 0.1, evaluations=10)
    assert search.run(lambda x: x) == 1.0
    assert len(search.path) == 1


@pytest.mark.parametrize(
    ("match", "target", "tolerance", "told"),
    [
        ("tpr", 97.0, 0.01, "97% is 0.97"),
        ("tpr", -0.1, 0.01, "97% is 0.97"),
        ("tpr", 0.97, -0.01, "tolerance of at least 0"),
        ("quality", math.nan, 0.03, "finite target"),
        ("quality", 0.34, math.inf, "finite target"),
    ],
)
def test_goals_out_of_reach_are_refused(match: Any, target: float, tolerance: float, told: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Goal(match, target, tolerance)
    assert told in (refusal.value.hint or "")


def test_rates_at_unknown_levels_are_refused() -> None:
    with pytest.raises(ConfigError, match="FPR"):
        Goal("tpr", 0.9, 0.01, fpr=0.02)
