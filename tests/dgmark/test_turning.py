"""The statistic that follows a parity that turns round."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pytest
from wmbench_dgmark.detect import global_z
from wmbench_dgmark.turning import turning_scores

Flags = npt.NDArray[np.bool_]


def by_all_paths(fitting: Flags, fit_rate: float, turn_rate: float) -> float:
    """The likelihood ratio by its definition: the sum over every course of states."""
    total = 0.0
    for turned in product([False, True], repeat=len(fitting)):
        chance = 0.5
        for before, after in pairwise(turned):
            chance *= turn_rate if before != after else 1 - turn_rate
        for state, fits in zip(turned, fitting, strict=True):
            chance *= fit_rate if fits != state else 1 - fit_rate
        total += chance
    return float(np.log(total / 0.5 ** len(fitting)))


@pytest.mark.parametrize(("fit_rate", "turn_rate"), [(0.65, 0.03), (0.9, 0.0), (0.55, 0.5)])
def test_recursion_equals_the_sum_over_all_paths(fit_rate: float, turn_rate: float) -> None:
    rng = np.random.default_rng(0)
    texts = [rng.random(n) < 0.7 for n in (8, 1, 5, 11)]
    expected = [by_all_paths(text, fit_rate, turn_rate) for text in texts]
    assert turning_scores(texts, fit_rate, turn_rate) == pytest.approx(expected)


def test_the_place_where_the_answer_began_does_not_matter() -> None:
    text = np.random.default_rng(1).random(200) < 0.6
    upright, turned = turning_scores([text, ~text], 0.65, 0.03)
    assert upright == pytest.approx(turned)


def test_a_score_does_not_depend_on_its_neighbours() -> None:
    rng = np.random.default_rng(2)
    texts = [rng.random(n) < 0.6 for n in (50, 0, 200)]
    together = turning_scores(texts, 0.65, 0.03)
    assert together.tolist() == [turning_scores([text], 0.65, 0.03)[0] for text in texts]
    assert together[1] == 0
    assert len(turning_scores([], 0.65, 0.03)) == 0


def test_it_finds_what_counts_over_the_whole_text_lose() -> None:
    """Marked texts whose parity turns round behind every fortieth token, against texts without a mark."""
    rng = np.random.default_rng(3)
    turned = np.arange(300) // 40 % 2 == 1
    marked = [(rng.random(300) < 0.7) != turned for _ in range(200)]
    null = [rng.random(300) < 0.5 for _ in range(1000)]

    def found(scores: npt.NDArray[np.float64], of_null: npt.NDArray[np.float64]) -> float:
        return float((scores > np.quantile(of_null, 0.99)).mean())

    def counted(texts: list[Flags]) -> npt.NDArray[np.float64]:
        return np.array([abs(global_z(text)) for text in texts])

    assert found(turning_scores(marked, 0.65, 0.03), turning_scores(null, 0.65, 0.03)) > 0.9
    assert found(counted(marked), counted(null)) < 0.1
