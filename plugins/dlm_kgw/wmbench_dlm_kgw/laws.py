"""What G[h, v] is without a mark: its law for one pair, and the p-value of a sum over distinct pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from wmbench.types import IntArray
from wmbench_dlm_kgw.config import DlmKgwConfig

Floats = npt.NDArray[np.float64]

SMALLEST_P = 1e-300
"""Reported in place of smaller p-values, which float64 could not tell from zero."""
_LOGNORMAL_MOMENTS = math.exp(0.5), (math.e - 1) * math.e


def moments(config: DlmKgwConfig) -> tuple[float, float]:
    """Mean and variance of one pair."""
    if config.greenlist_type == "bernoulli":
        return config.gamma, config.gamma * (1 - config.gamma)
    return (0.0, 1.0) if config.greenlist_type == "gaussian" else _LOGNORMAL_MOMENTS


def quantiles(uniforms: Floats, config: DlmKgwConfig) -> Floats:
    """Values of the pairs with these uniforms, where they are no coins. (The published value at 0 is infinite.)"""
    normal: Floats = ndtri(np.maximum(uniforms, 2.0**-54))
    return normal if config.greenlist_type == "gaussian" else np.exp(normal)


def normal_z(totals: npt.NDArray[Any], pairs: IntArray, config: DlmKgwConfig) -> Floats:
    """Standardised sums; 0 where there is no pair."""
    mean, variance = moments(config)
    z: Floats = (totals - mean * pairs) / np.sqrt(np.maximum(pairs, 1) * variance)
    return z


def tail_p(totals: npt.NDArray[Any], pairs: IntArray, config: DlmKgwConfig) -> Floats:
    """P(sum >= total): binomial for coins, normal for normal values, and for log-normal ones the published
    approximation, a log-normal law of the same mean and variance (Fenton and Wilkinson). 1 where there is no pair."""
    if config.greenlist_type == "bernoulli":
        from scipy.stats import binom

        p = binom.sf(totals - 1, pairs, config.gamma)
    elif config.greenlist_type == "gaussian":
        p = ndtr(-normal_z(totals, pairs, config))
    else:
        mean, variance = _LOGNORMAL_MOMENTS
        n = np.maximum(pairs, 1)
        spread = np.log1p(variance / (n * mean**2))  # variance of the logarithm of the sum
        logarithm = np.log(np.maximum(totals, np.finfo(np.float64).tiny))
        p = ndtr((np.log(n * mean) - spread / 2 - logarithm) / np.sqrt(spread))
    p_values: Floats = np.clip(np.where(pairs > 0, p, 1.0), SMALLEST_P, 1.0)
    return p_values
