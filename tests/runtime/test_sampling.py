from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from wmbench.runtime.randomness import SampleRandom
from wmbench.runtime.sampling import confidence, draw_tokens, inverse_cdf, tempered


def frequencies(logits: torch.Tensor, draws: int, temperature: float, **filters: float) -> np.ndarray:
    u = torch.from_numpy(SampleRandom(1, "chi").uniforms("token", 0, draws))
    tokens = draw_tokens(logits.expand(draws, -1), u, temperature, **filters)  # type: ignore[arg-type]
    return np.bincount(tokens.numpy(), minlength=logits.shape[-1])


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_frequencies_match_the_softmax(temperature: float) -> None:
    logits = torch.randn(12, generator=torch.Generator().manual_seed(0))
    expected = (logits.double() / temperature).softmax(-1).numpy() * 20_000
    assert stats.chisquare(frequencies(logits, 20_000, temperature), expected).pvalue > 1e-3


def test_temperature_zero_is_argmax() -> None:
    logits = torch.randn(30, 50, generator=torch.Generator().manual_seed(1))
    assert torch.equal(draw_tokens(logits, torch.rand(30), 0.0), logits.argmax(-1))


@pytest.mark.parametrize("temperature", [0.0, 0.5])
def test_no_rows_no_tokens(temperature: float) -> None:
    logits = torch.empty(0, 50)
    assert draw_tokens(logits, torch.empty(0), temperature).shape == (0,)
    assert draw_tokens(logits, torch.empty(0, 3), temperature, top_p=0.9).shape == (0, 3)


def test_banned_ids_never_appear_even_at_the_ends_of_the_interval() -> None:
    logits = torch.zeros(1, 9)
    logits[0, [0, 4, 8]] = -torch.inf
    u = torch.tensor([[0.0, 1.0 - 2**-53, *np.linspace(0, 1, 400, endpoint=False)]])
    drawn = set(draw_tokens(logits, u, 1.0).flatten().tolist())
    assert drawn == {1, 2, 3, 5, 6, 7}


def test_top_k_and_top_p_keep_the_smallest_sufficient_set() -> None:
    probabilities = torch.tensor([[0.4, 0.3, 0.2, 0.1]])
    logits = probabilities.log()
    assert (tempered(logits, 1.0, top_k=2)[0] > 0).tolist() == [True, True, False, False]
    assert (tempered(logits, 1.0, top_p=0.65)[0] > 0).tolist() == [True, True, False, False]
    assert (tempered(logits, 1.0, top_p=0.1)[0] > 0).tolist() == [True, False, False, False]
    assert torch.allclose(tempered(logits, 1.0, top_p=0.65)[0, 0], torch.tensor(4 / 7, dtype=torch.float64))


def test_several_draws_share_one_distribution() -> None:
    logits = torch.randn(5, 20, generator=torch.Generator().manual_seed(2))
    u = torch.rand(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    together = draw_tokens(logits, u, 0.7)
    apart = torch.stack([draw_tokens(logits, u[:, r], 0.7) for r in range(7)], 1)
    assert torch.equal(together, apart)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=12).filter(lambda p: sum(p) > 1e-3),
    st.floats(0, 1, exclude_max=True),
)
def test_inverse_cdf_stays_inside_the_support(weights: list[float], uniform: float) -> None:
    p = torch.tensor([weights], dtype=torch.float64)
    p = p / p.sum()
    token = int(inverse_cdf(p, torch.tensor([[uniform]], dtype=torch.float64)))
    assert p[0, token] > 0


def test_confidences() -> None:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]], dtype=torch.float64)
    tokens = torch.tensor([1, 0])
    assert torch.allclose(confidence("probability", p, tokens), torch.tensor([0.2, 0.4], dtype=torch.float64))
    assert torch.allclose(confidence("margin", p, tokens), torch.tensor([0.5, 0.05], dtype=torch.float64))
    entropy = confidence("entropy", p, tokens)
    assert entropy[0] > entropy[1]


@pytest.mark.parametrize(("spread", "is_large"), [(4.0, False), (0.3, True)])
def test_the_nucleus_of_a_large_vocabulary_is_that_of_a_sorted_one(spread: float, is_large: bool) -> None:
    logits = spread * torch.randn(5, 1000, generator=torch.Generator().manual_seed(2))
    kept = tempered(logits, 0.7, top_p=0.9) > 0
    assert (kept.sum(-1) > 64).all() if is_large else (kept.sum(-1) < 64).all()  # both ways of finding it
    ordered, order = (logits.double() / 0.7).softmax(-1).sort(dim=-1, descending=True)
    expected = torch.zeros_like(kept).scatter(-1, order, ordered.cumsum(-1) - ordered <= 0.9)
    assert torch.equal(kept, expected)
    u = torch.rand(5, 400, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    assert kept.gather(-1, draw_tokens(logits, u, 0.7, top_p=0.9)).all()
