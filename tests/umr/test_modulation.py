"""Noise that agrees with what the native policy has drawn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from wmbench_umr.modulation import best_scores

from wmbench.runtime.sampling import draw_tokens
from wmbench.runtime.settings import Decoding

DRAWS = 40_000


def test_scores_follow_the_law_of_gumbel_noise() -> None:
    """Winner first, then scores given the winner, has the same law as noise on every token: compare the second best
    token and the mean softmax of the scores."""
    logits = torch.randn(12, generator=torch.Generator().manual_seed(0)).expand(DRAWS, -1)
    decoding, draw = Decoding(temperature=0.5), np.random.default_rng(1)
    winners = draw_tokens(logits, torch.from_numpy(draw.random(DRAWS)), 0.5)
    tokens, p = best_scores(logits, winners, torch.from_numpy(draw.random((DRAWS, 13))), decoding, 4)
    assert (tokens[:, 0] == winners).all()
    noise = -np.log(-np.log(draw.random((DRAWS, 12))))
    direct = (logits.double() + 0.5 * torch.from_numpy(noise)).topk(4)
    for rank in range(4):
        shares, expected = (torch.bincount(part[:, rank], minlength=12) / DRAWS for part in (tokens, direct.indices))
        assert (shares - expected).abs().max() < 0.015
    means = direct.values.softmax(-1).mean(0)
    assert p.mean(0).tolist() == pytest.approx(means.tolist(), abs=0.005)


def test_no_noise_at_temperature_zero() -> None:
    logits = torch.tensor([[0.0, 3.0, -torch.inf, 1.0]])
    tokens, p = best_scores(logits, torch.tensor([1]), torch.empty(1, 0), Decoding(temperature=0.0), 9)
    assert tokens[0, :3].tolist() == [1, 3, 0]
    assert p[0].tolist() == pytest.approx(logits.softmax(-1)[0, [1, 3, 0, 2]].tolist())


def test_banned_tokens_never_come_up() -> None:
    logits = torch.full((3, 20), -torch.inf)
    logits[:, [4, 5]] = 1.0
    u = torch.from_numpy(np.random.default_rng(2).random((3, 21)))
    tokens, p = best_scores(logits, torch.tensor([4, 5, 4]), u, Decoding(), 6)
    assert (p[:, 2:] == 0).all()
    assert {4, 5} == set(tokens[:, :2].flatten().tolist())
