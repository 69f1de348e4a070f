"""From the key to one vector per unit.

The key gives unit b the pairs (theta_bj, s_bj), j < C: a direction on the sphere and a sign. The score of a text u,

    g_b(u) = (1/C) sum_j s_bj <E(u), theta_bj> = <E(u), v_b>    with  v_b = (1/C) sum_j s_bj theta_bj,

needs v_b only. It is computed once per unit.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wmbench.errors import ConfigError
from wmbench.keys import SecretKey
from wmbench_denmark.config import DenMarkConfig

Floats = npt.NDArray[np.float64]
Signs = npt.NDArray[np.int64]
Units = npt.NDArray[np.int64]

_UNITS_AT_ONCE = 16


def secret_channels(key: SecretKey, units: Units, channels: int, dimension: int) -> tuple[Floats, Signs]:
    """Directions [units, C, dimension] of length 1 and signs [units, C], by HMAC of the key."""
    unit, channel = units[:, None], np.arange(channels)
    gaussians = key.stream("denmark", 1, "direction").gaussians(unit, channel, dimension)
    bits = key.stream("denmark", 1, "sign").bits(unit, channel, 1)[..., 0]
    return gaussians / np.linalg.norm(gaussians, axis=-1, keepdims=True), 2 * bits.astype(np.int64) - 1


def official_channels(
    units: int, channels: int, dimension: int, direction_seed: int, sign_seed: int
) -> tuple[npt.NDArray[np.float32], Signs]:
    """The authors' directions [units, C, dimension] and signs [units, C], from torch's CPU generator.

    torch draws normal numbers in groups of 16, so only whole groups do not depend on how many units are drawn.
    """
    import torch

    rows = -(-units // _UNITS_AT_ONCE) * _UNITS_AT_ONCE * channels
    directions = torch.randn(rows, dimension, generator=torch.Generator().manual_seed(direction_seed))
    directions = directions / directions.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    signs = 2 * torch.randint(0, 2, (rows,), generator=torch.Generator().manual_seed(sign_seed)) - 1
    shape = (-1, channels, dimension)
    return directions.reshape(shape)[:units].numpy(), signs.reshape(-1, channels)[:units].numpy()


class UnitVectors:
    """v_b for any unit b, computed when first asked for."""

    def __init__(self, config: DenMarkConfig, key: SecretKey | None, dimension: int) -> None:
        if key is None and config.prf == "hmac":
            raise ConfigError("DenMark needs a key", hint="make one with `wmbench key new`")
        self._config = config
        self._key = key
        self._vectors = np.empty((0, dimension))

    def first(self, units: int) -> Floats:
        """[at least `units`, dimension]: the vectors of unit 0, 1, ..."""
        known, dimension = self._vectors.shape
        if units > known:
            wanted = -(-units // _UNITS_AT_ONCE) * _UNITS_AT_ONCE
            self._vectors = np.concatenate([self._vectors, self._make(np.arange(known, wanted), dimension)])
        return self._vectors

    def _make(self, units: Units, dimension: int) -> Floats:
        config = self._config
        if config.prf == "official":
            known, wanted = int(units[0]), int(units[-1]) + 1
            seeds = (config.direction_seed, config.sign_seed)
            drawn, all_signs = official_channels(wanted, config.channels, dimension, *seeds)
            directions, signs = drawn[known:].astype(np.float64), all_signs[known:]
        else:
            assert self._key is not None
            directions, signs = secret_channels(self._key, units, config.channels, dimension)
        return (signs[..., None] * directions).mean(axis=1)
