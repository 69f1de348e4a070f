"""Candidate tokens: y = logits + T * Gumbel, of which the k largest compete in a draw from softmax(y).

Gumbel noise is an exponential race in disguise: token v arrives at time E_v / p_v, with p = softmax(logits / T) and E
exponential, and y = -T ln(arrival) up to a constant. The k earliest arrivals are drawn one after the other: the next
gap is exponential with the mass that is left, and the winner is drawn in proportion to its mass. That is the same law
with 3k + 1 uniforms per position instead of a vocabulary of noise.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wmbench.runtime.sampling import draw_tokens, inverse_cdf, weights
from wmbench.runtime.settings import Decoding

_SMALLEST = 2.0**-54  # half a step of the uniforms: the logarithm stays finite


def uniforms_needed(top_k: int | None) -> int:
    """Uniforms per candidate; `top_k` is None for a plain draw."""
    return 1 if top_k is None else 3 * top_k + 1


def draw_candidates(logits: Tensor, uniforms: Tensor, decoding: Decoding, top_k: int | None) -> Tensor:
    """One token per row [n] from logits [n, V] and uniforms [n, uniforms_needed]."""
    if decoding.temperature == 0.0 or top_k is None:
        return draw_tokens(logits, uniforms[:, 0], decoding.temperature, decoding.top_k, decoding.top_p)
    mass = weights(logits, decoding.temperature, decoding.top_k, decoding.top_p)  # a factor changes no race
    tokens, arrivals = first_arrivals(mass, uniforms[:, 1:], top_k)
    chosen = inverse_cdf(arrivals**-decoding.temperature, uniforms[:, :1])  # exp(y) = arrival^-T
    return tokens.gather(1, chosen).squeeze(1)


def first_arrivals(mass: Tensor, uniforms: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The first arrivals of the race in their order: tokens and times [n, count], from uniforms [n, 3 count].

    A draw looks up a block of about sqrt(V) tokens, then a token of that block, so that only one pass over the
    vocabulary is made. Sums are formed in float64, and anew where a token leaves: subtraction would ruin small masses.
    When no token is left, arrivals are infinite.
    """
    width = _block_width(mass.shape[1])
    left = torch.nn.functional.pad(mass, (0, -mass.shape[1] % width))  # a copy: tokens that arrive are struck out
    blocks = left.view(len(mass), -1, width)
    totals = blocks.sum(-1, dtype=torch.float64)
    here = torch.arange(len(mass), device=mass.device)
    exponentials = -uniforms[:, :count].clamp(min=_SMALLEST).log()
    tokens, times = [], []
    time = torch.zeros_like(exponentials[:, 0])
    for i in range(count):
        time = time + exponentials[:, i] / totals.sum(-1)
        block = inverse_cdf(totals, uniforms[:, count + i, None]).clamp(max=blocks.shape[1] - 1)
        members = blocks[here, block.squeeze(1)]
        member = inverse_cdf(members, uniforms[:, 2 * count + i, None]).clamp(max=width - 1)
        token = block * width + member
        left.scatter_(1, token, 0.0)
        rest = members.scatter_(1, member, 0.0).sum(-1, keepdim=True, dtype=torch.float64)
        totals.scatter_(1, block, rest)
        tokens.append(token)
        times.append(time)
    return torch.cat(tokens, 1), torch.stack(times, 1)


def _block_width(size: int) -> int:
    """About sqrt(size); a divisor if there is one, so that no padding is needed."""
    root = max(1, int(size**0.5))
    return next((width for width in range(root, 2 * root) if size % width == 0), root)
