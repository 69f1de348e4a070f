"""Pivots and bits: b orthogonal directions for the whole text, and for every unit b bits that say which side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wmbench.errors import ConfigError
from wmbench.keys import SecretKey
from wmbench.prf import require_key
from wmbench_pmark.config import PMarkConfig

Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.uint8]

_SCHEME = "pmark", 1


def orthogonal(normals: Floats) -> Floats:
    """Pivots [b, dimension] from normal numbers [dimension, b]: the transpose of Q in their QR decomposition."""
    pivots: Floats = np.linalg.qr(normals)[0].T
    return pivots


def official_pivots(dimension: int, channels: int, seed: int = 42) -> Floats:
    return orthogonal(np.random.default_rng(seed).standard_normal((dimension, channels)))


def official_bits(units: int, channels: int, seed: int = 0) -> Bits:
    """Bits [units, b] of the DenMark authors' adapter. Their sentences count from 1: row 0 is drawn and not used."""
    return np.random.default_rng(seed).integers(0, 2, (units + 1, channels)).astype(np.uint8)[1:]


@dataclass(frozen=True)
class PMarkKey:
    """What the key decides for vectors of one dimension."""

    config: PMarkConfig
    pivots: Floats
    """[b, dimension], orthonormal."""
    key: SecretKey | None

    @classmethod
    def of(cls, config: PMarkConfig, key: SecretKey | None, dimension: int) -> PMarkKey:
        if config.channels > dimension:
            raise ConfigError(
                "pmark has more channels than the encoder has dimensions",
                why=f"{config.channels} > {dimension}, and pivots are orthogonal",
                hint=f"set `channels` to {dimension} at most",
            )
        if config.prf == "official":
            return cls(config, official_pivots(dimension, config.channels, config.pivot_seed), None)
        key = require_key(key, "pmark")
        normals = key.stream(*_SCHEME, "pivot").gaussians(0, np.arange(config.channels), dimension)
        return cls(config, orthogonal(normals.T), key)

    def bits(self, units: int) -> Bits:
        """[units, b]"""
        if self.key is None:
            return official_bits(units, self.config.channels, self.config.bit_seed)
        return self.key.stream(*_SCHEME, "bits").bits(np.arange(units), 0, self.config.channels)
