"""Rollouts with the noise of the authors' code: Gumbel-max, one tensor of uniforms per rollout, whatever the prompt.

The decoder does not use it: rollouts of different prompts shall be independent, and an inverse CDF needs one uniform
per position instead of one per token of the vocabulary. It is here to be compared with (`denmark-noise`).
"""

from __future__ import annotations

import torch
from torch import Tensor

_MODULUS = 2**31
_TINY = 1e-20
"""Keeps both logarithms finite, as published."""


def step_seed(unit: int, inner_step: int, selection_seed: int = 0) -> int:
    """Seed of the `inner_step`-th step on a unit; the run's own seed does not enter."""
    return (1_000_003 * selection_seed + 1009 * unit + inner_step) % _MODULUS


def noise_seed(step: int, rollout: int, iteration: int = 0) -> int:
    """Seed of one rollout of the step with this seed; `iteration` counts the passes that fill a rollout, here one."""
    return (1_000_003 * step + 10_007 * iteration + rollout) % _MODULUS


def uniforms(seed: int, length: int, size: int) -> Tensor:
    """[length, size] for all columns of a unit, filled ones too, from torch's CPU generator."""
    return torch.rand(length, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def gumbel_max(logits: Tensor, uniforms: Tensor, temperature: float) -> Tensor:
    """Tokens [n] from softmax(logits / temperature) by uniforms [n, V]."""
    noise = -torch.log(-torch.log(uniforms + _TINY) + _TINY)
    return (logits.double() + temperature * noise.to(logits.device)).argmax(-1)
