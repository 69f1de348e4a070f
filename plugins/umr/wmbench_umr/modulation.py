"""Bit-controlled modulation: green tokens gain, red ones pay for it. A third party's formula, not the authors' code."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import Tensor

from wmbench.runtime.sampling import tempered
from wmbench.runtime.settings import Decoding

Floats = npt.NDArray[np.float64]
_LARGEST_PENALTY = 1 - 1e-6


def modulated(p: Floats, green: npt.NDArray[np.bool_], delta: float) -> Floats:
    """Distributions p [..., n], with green tokens (1 + delta) times and red ones (1 - delta') times as probable.

    delta' = delta tau / (1 - tau), with tau the green mass, keeps the sum at 1 until it reaches 1; from there on red is
    almost switched off. A distribution that is all green or all red is left alone.
    """
    tau = (p * green).sum(-1, keepdims=True)
    red = (p * ~green).sum(-1, keepdims=True)
    mixed = (tau > 0) & (red > 0)
    penalty = np.minimum(delta * tau / np.where(mixed, red, 1.0), _LARGEST_PENALTY)
    out = np.where(green, p * (1 + delta), p * (1 - penalty))
    return np.where(mixed, out / np.where(mixed, out.sum(-1, keepdims=True), 1.0), p)


def best_scores(
    logits: Tensor, winners: Tensor, uniforms: Tensor, decoding: Decoding, count: int
) -> tuple[Tensor, Tensor]:
    """Tokens and softmax(y) [n, count] of the largest y = logits + T * Gumbel, given that `winners` [n] have the best.

    In terms of a race (y = -T ln(arrival), token v arrives at E_v / p_v with p = softmax(logits / T)): the winner
    arrives after one exponential, and any other token E_v / p_v later. So tokens that the native policy has drawn
    already get the noise that belongs to them. `uniforms`: [n, V + 1]. At temperature 0 there is no noise.
    """
    count = min(count, logits.shape[1])
    if decoding.temperature == 0.0:
        best = logits.double().topk(count)
        return best.indices, best.values.softmax(-1)
    exponentials = -uniforms.clamp(min=2.0**-54).log()
    first = exponentials[:, -1:]
    mass = tempered(logits, decoding.temperature, decoding.top_k, decoding.top_p)
    arrivals = (first + exponentials[:, :-1] / mass).scatter(1, winners[:, None], first)
    soonest = arrivals.topk(count, largest=False)
    return soonest.indices, (-decoding.temperature * soonest.values.log()).softmax(-1)
