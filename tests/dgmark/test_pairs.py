"""The statistic that outlives a parity that turns round."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import numpy.typing as npt
import pytest
from wmbench_dgmark.detect import global_z
from wmbench_dgmark.pairs import pair_scores

Flags = npt.NDArray[np.bool_]


def by_definition(fitting: Flags, decay: float) -> float:
    pairs = list(combinations(range(len(fitting)), 2))
    total = sum(decay ** (j - i) * (1 if fitting[i] == fitting[j] else -1) for i, j in pairs)
    return float(total / np.sqrt(sum(decay ** (2 * (j - i)) for i, j in pairs)))


@pytest.mark.parametrize("decay", [0.3, 0.9, 0.99])
def test_the_recursion_equals_the_sum_over_all_pairs(decay: float) -> None:
    rng = np.random.default_rng(0)
    texts = [rng.random(n) < 0.7 for n in (40, 2, 5, 90)]
    assert pair_scores(texts, decay) == pytest.approx([by_definition(text, decay) for text in texts])


@pytest.mark.parametrize("n", [2, 3, 9])
def test_fair_coins_have_mean_0_and_variance_1(n: int) -> None:
    """Over all texts of n tokens."""
    scores = pair_scores([np.array(flags) for flags in product([False, True], repeat=n)], 0.8)
    assert (scores.mean(), scores.var()) == pytest.approx((0.0, 1.0))


def test_the_place_where_the_answer_began_does_not_matter() -> None:
    text = np.random.default_rng(1).random(200) < 0.6
    upright, turned = pair_scores([text, ~text], 0.9)
    assert upright == turned


def test_a_score_does_not_depend_on_its_neighbours() -> None:
    rng = np.random.default_rng(2)
    texts = [rng.random(n) < 0.6 for n in (50, 0, 1, 200)]
    together = pair_scores(texts, 0.9)
    assert together.tolist() == [pair_scores([text], 0.9)[0] for text in texts]
    assert together[1] == together[2] == 0
    assert len(pair_scores([], 0.9)) == 0


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

    assert found(pair_scores(marked, 0.9), pair_scores(null, 0.9)) > 0.9
    assert found(counted(marked), counted(null)) < 0.1
