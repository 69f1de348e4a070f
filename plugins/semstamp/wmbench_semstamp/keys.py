"""Hyperplanes that hash a meaning to a bin, and the bins that are valid after a bin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wmbench.keys import SecretKey
from wmbench.prf import require_key
from wmbench.types import IntArray
from wmbench_semstamp.config import SemStampConfig

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_SCHEME = "semstamp", 1
_HASH_KEY = 15485863


def official_normals(bits: int, dimension: int, seed: int = 1234) -> Floats:
    return np.random.RandomState(seed).randn(bits, dimension)


def official_valid(bins: int, count: int) -> list[IntArray]:
    """Valid bins after every bin, in the order of the published permutation (drawn here on the CPU)."""
    import torch

    return [
        torch.randperm(bins, generator=torch.Generator().manual_seed(_HASH_KEY * previous)).numpy()[:count]
        for previous in range(bins)
    ]


def bins_of(projections: Floats) -> IntArray:
    """Bins [n] of projections [n, d] on the normals: bit 1 where positive, the first normal is the highest bit."""
    places = 1 << np.arange(projections.shape[1])[::-1]
    return ((projections > 0) * places).sum(axis=1)


def far_from_borders(cosines: Floats, margin: float) -> Flags:
    """[n] whether all cosines [n, d] with the normals are at least the margin."""
    far: Flags = np.abs(cosines).min(axis=1) >= margin
    return far


@dataclass(frozen=True)
class SemStampKey:
    """What the key decides for vectors of one dimension."""

    normals: Floats
    """[d, dimension] of length 1."""
    is_valid: Flags
    """[bins, bins] whether a bin is valid after a bin."""

    @classmethod
    def of(cls, config: SemStampConfig, key: SecretKey | None, dimension: int) -> SemStampKey:
        if config.prf == "official":
            normals = official_normals(config.bits, dimension, config.lsh_seed)
            valid = official_valid(config.bins, config.valid_bins)
        else:
            key = require_key(key, "semstamp")
            normals = key.stream(*_SCHEME, "normal").gaussians(0, np.arange(config.bits), dimension)
            order = key.stream(*_SCHEME, "valid").permutation(np.arange(config.bins), 0, config.bins)
            valid = list(order[:, : config.valid_bins])
        is_valid = np.zeros((config.bins, config.bins), dtype=bool)
        for previous, bins in enumerate(valid):
            is_valid[previous, bins] = True
        return cls(normals / np.linalg.norm(normals, axis=1, keepdims=True), is_valid)
