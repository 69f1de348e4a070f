"""The race draws the same law as a vocabulary of Gumbel noise."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from wmbench_dgmark.candidates import draw_candidates, first_arrivals, uniforms_needed

from wmbench.runtime.settings import Decoding

DRAWS = 40_000


def brute_force(logits: torch.Tensor, temperature: float, top_k: int) -> np.ndarray:
    """The published rule: noise on every token, the k largest, a draw from their softmax."""
    generator = torch.Generator().manual_seed(1)
    noise = -torch.log(-torch.log(torch.rand(DRAWS, len(logits), generator=generator, dtype=torch.float64)))
    best = (logits.double() + temperature * noise).topk(top_k)
    chosen = torch.multinomial(best.values.softmax(-1), 1, generator=generator)
    return np.bincount(best.indices.gather(1, chosen).squeeze(1).numpy(), minlength=len(logits)) / DRAWS


@pytest.mark.parametrize(("temperature", "top_k"), [(0.5, 10), (0.5, 2), (1.3, 4), (0.1, 3)])
def test_two_stage_law(temperature: float, top_k: int) -> None:
    logits = torch.randn(23, generator=torch.Generator().manual_seed(0)) * 2
    logits[[3, 17]] = -torch.inf
    u = torch.from_numpy(np.random.default_rng(2).random((DRAWS, uniforms_needed(top_k))))
    decoding = Decoding(temperature=temperature)
    tokens = draw_candidates(logits.expand(DRAWS, -1), u, decoding, top_k).numpy()
    shares = np.bincount(tokens, minlength=23) / DRAWS
    expected = brute_force(logits, temperature, top_k)
    assert shares[[3, 17]].sum() == 0
    deviation = (shares - expected) / np.sqrt(np.maximum(expected, 1e-4) * 2 / DRAWS)
    assert np.abs(deviation).max() < 4.5


def test_differs_from_plain_sampling() -> None:
    """Randomness enters twice: the most likely token is chosen less often than by one draw."""
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    assert brute_force(logits, 0.5, 3)[0] < logits.div(0.5).softmax(-1)[0] - 0.05


def test_arrivals_are_ordered_and_distinct() -> None:
    mass = torch.randn(50, 131, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).mul(20).softmax(-1)
    u = torch.from_numpy(np.random.default_rng(4).random((50, 60)))
    tokens, times = first_arrivals(mass, u, 20)
    assert all(len(set(row)) == 20 for row in tokens.tolist())
    assert (times.diff(dim=1) >= 0).all()


def test_fewer_tokens_than_asked_for() -> None:
    logits = torch.full((5, 40), -torch.inf)
    logits[:, 7], logits[:, 21] = 0.0, -3.0
    u = torch.from_numpy(np.random.default_rng(5).random((5, uniforms_needed(10))))
    assert set(draw_candidates(logits, u, Decoding(), 10).tolist()) <= {7, 21}
