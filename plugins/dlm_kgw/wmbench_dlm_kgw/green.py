"""G: what a (context hash, token) pair is worth, and how context tokens become a hash."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from wmbench.keys import SecretKey
from wmbench.prf import require_key
from wmbench.types import IntArray
from wmbench_dlm_kgw.config import DlmKgwConfig
from wmbench_dlm_kgw.laws import quantiles

Ids = npt.NDArray[np.integer[Any]]
Worths = npt.NDArray[Any]
"""Booleans (green or not), or floats for the other kinds of `greenlist_type`."""
GreenMatrix = Callable[[Ids, Ids], Worths]
"""(hashes, tokens), broadcast against each other -> G of the pairs. Computed on demand: no table of V x V."""

_SALT = 42
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


def signed_splitmix(keys: Ids) -> IntArray:
    """SplitMix64, except that its shifts are arithmetic: the published code mixes int64, not uint64. Never scalars,
    for which numpy warns of the intended overflow."""
    z = keys + np.int64(0x9E3779B97F4A7C15 - 2**64)
    for shift, factor in _STEPS:
        z ^= z >> shift
        z *= np.int64(factor - 2**64)
    z ^= z >> 31
    return z


def official_words(hashes: Ids, tokens: Ids, stride: int) -> IntArray:
    """The published 53 random bits of each pair. `stride` is the number of hashes, context size times V."""
    mixed = signed_splitmix(np.asarray(hashes, np.int64) + np.asarray(tokens, np.int64) * stride + _SALT)
    mixed &= 2**53 - 1
    return mixed


def green_matrix(config: DlmKgwConfig, size: int, key: SecretKey | None) -> GreenMatrix:
    """G for a vocabulary of `size` tokens."""
    coins = config.greenlist_type == "bernoulli"
    limit = math.ceil(config.gamma * 2.0**53)  # uniform < gamma, among the 53-bit words it is made of
    if config.prf == "official":
        stride = len(config.convolution_kernel) * size
        if coins:
            return lambda hashes, tokens: official_words(hashes, tokens, stride) < limit
        return lambda hashes, tokens: quantiles(official_words(hashes, tokens, stride) / 2**53, config)
    prf = require_key(key, "dlm_kgw").token_prf("dlm_kgw", 1, "green")
    if coins:
        bound = np.uint64(limit << 11)
        return lambda hashes, tokens: prf(hashes, tokens) < bound
    return lambda hashes, tokens: quantiles(prf.uniforms(hashes, tokens), config)


@lru_cache(maxsize=4)
def minhash_ranks(size: int) -> IntArray:
    """Rank of every token in the fixed order of min-hash: torch's permutation of seed 0 on the CPU, for every key."""
    import torch

    ranks: IntArray = torch.randperm(size, generator=torch.Generator().manual_seed(0)).numpy()
    return ranks


def token_hashes(tokens: Ids, config: DlmKgwConfig, size: int) -> Ids:
    """What one context token contributes: its id, or its rank."""
    return tokens if config.seeding_scheme == "sumhash" else minhash_ranks(size)[tokens]


def context_hashes(contexts: Ids, config: DlmKgwConfig, size: int) -> Ids:
    """Hashes [n] of contexts [n, context size]."""
    single = token_hashes(contexts, config, size)
    hashes: Ids = single.sum(-1) if config.seeding_scheme == "sumhash" else single.min(-1)
    return hashes
