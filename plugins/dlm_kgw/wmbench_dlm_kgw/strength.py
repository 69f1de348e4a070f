"""From gradients to boosts: a fixed factor, or one per position that spends a KL budget."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wmbench_dlm_kgw.config import DlmKgwConfig

Floats = npt.NDArray[np.float64]

_BISECTIONS = 16
_LARGEST_FACTOR = 1e4


def boosts(alpha: Floats, probabilities: Floats, config: DlmKgwConfig, temperature: float) -> Floats:
    """Additive logits [n, m] from gradients alpha [n, m] over m outcomes of the given probabilities [n, m]."""
    if not config.enforce_kl:
        return alpha * (config.delta / (len(config.convolution_kernel) + 1))
    return alpha * _kl_factors(alpha, probabilities, config.delta, temperature)


def _kl_factors(alpha: Floats, p: Floats, budget: float, temperature: float) -> Floats:
    """Largest d [n, 1] with KL(q || p) <= budget for q ~ p exp(d alpha / T), by bisection as published."""
    mean = (p * alpha).sum(-1, keepdims=True)
    variance = (p * (alpha - mean) ** 2).sum(-1, keepdims=True)
    low = np.zeros_like(variance)
    high = np.minimum(2 * np.sqrt(2 * budget / (variance + 1e-8)), _LARGEST_FACTOR)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        too_far = _divergence(middle * alpha / temperature, p) > budget
        low, high = np.where(too_far, low, middle), np.where(too_far, middle, high)
    return low


def _divergence(tilt: Floats, p: Floats) -> Floats:
    """KL(q || p) [n, 1] for q = p exp(tilt) / Z: the mean tilt under q minus ln Z."""
    top = tilt.max(-1, keepdims=True)
    weights = p * np.exp(tilt - top)
    total = weights.sum(-1, keepdims=True)
    divergence: Floats = (weights * tilt).sum(-1, keepdims=True) / total - top - np.log(total)
    return divergence
