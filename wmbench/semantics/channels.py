"""Keyed directions in the space of an encoder: one vector per unit.

The key gives unit b the pairs (theta_bj, s_bj), j < C: a direction on the sphere and a sign. The score of a text u,

    g_b(u) = (1/C) sum_j s_bj <E(u), theta_bj> = <E(u), v_b>    with  v_b = (1/C) sum_j s_bj theta_bj,

needs v_b only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from wmbench.keys import SecretKey
from wmbench.prf import Prf, require_key
from wmbench.types import IntArray

Floats = npt.NDArray[np.float64]
Signs = npt.NDArray[np.int64]
SignedDirections = Callable[[IntArray], Floats]
"""s_bj theta_bj [units, C, dimension] of consecutive units b."""

_UNITS_AT_ONCE = 16
"""torch draws normal numbers in groups of 16, so only whole groups do not depend on how many units are drawn."""


def secret_channels(
    key: SecretKey, scheme: str, version: int, units: IntArray, channels: int, dimension: int
) -> tuple[Floats, Signs]:
    """Directions [units, C, dimension] of length 1 and signs [units, C], by HMAC of the key."""
    unit, channel = units[:, None], np.arange(channels)
    gaussians = key.stream(scheme, version, "direction").gaussians(unit, channel, dimension)
    bits = key.stream(scheme, version, "sign").bits(unit, channel, 1)[..., 0]
    return gaussians / np.linalg.norm(gaussians, axis=-1, keepdims=True), 2 * bits.astype(np.int64) - 1


def official_channels(
    units: int, channels: int, dimension: int, direction_seed: int, sign_seed: int
) -> tuple[npt.NDArray[np.float32], Signs]:
    """The DenMark authors' directions [units, C, dimension] and signs [units, C], from torch's CPU generator."""
    import torch

    rows = units * channels
    directions = torch.randn(rows, dimension, generator=torch.Generator().manual_seed(direction_seed))
    directions = directions / directions.norm(dim=-1, keepdim=True).clamp_min(1e-12)
    signs = 2 * torch.randint(0, 2, (rows,), generator=torch.Generator().manual_seed(sign_seed)) - 1
    return directions.reshape(units, channels, dimension).numpy(), signs.reshape(units, channels).numpy()


def secret_directions(key: SecretKey, scheme: str, version: int, channels: int, dimension: int) -> SignedDirections:
    """From the user's key; schemes do not share directions."""

    def signed(units: IntArray) -> Floats:
        directions, signs = secret_channels(key, scheme, version, units, channels, dimension)
        return signs[..., None] * directions

    return signed


def official_directions(
    direction_seed: int, sign_seed: int, channels: int, dimension: int, drawn_at_once: int | None = None
) -> SignedDirections:
    """From the DenMark authors' public seeds. Their detector draws a key of `drawn_at_once` units; the end of a draw
    depends on its size unless that is a multiple of 16 numbers."""

    def signed(units: IntArray) -> Floats:
        known, wanted = int(units[0]), int(units[-1]) + 1
        directions, signs = official_channels(wanted, channels, dimension, direction_seed, sign_seed)
        if drawn_at_once is not None and drawn_at_once < wanted:
            directions[:drawn_at_once], _ = official_channels(
                drawn_at_once, channels, dimension, direction_seed, sign_seed
            )
        return signs[known:, :, None].astype(np.float64) * directions[known:].astype(np.float64)

    return signed


class UnitVectors:
    """v_b for any unit b, computed when first asked for."""

    def __init__(self, signed_directions: SignedDirections, dimension: int) -> None:
        self._signed_directions = signed_directions
        self._vectors = np.empty((0, dimension))

    def first(self, units: int) -> Floats:
        """[at least `units`, dimension]: the vectors of unit 0, 1, ..."""
        known = len(self._vectors)
        if units > known:
            wanted = np.arange(known, -(-units // _UNITS_AT_ONCE) * _UNITS_AT_ONCE)
            self._vectors = np.concatenate([self._vectors, self._signed_directions(wanted).mean(axis=1)])
        return self._vectors


class DirectionConfig(Protocol):
    """What a scheme's configuration says about its keyed directions."""

    @property
    def prf(self) -> Prf: ...
    @property
    def channels(self) -> int: ...
    @property
    def direction_seed(self) -> int: ...
    @property
    def sign_seed(self) -> int: ...
    @property
    def scored_units(self) -> int | None: ...


def unit_vectors(
    scheme: str, version: int, config: DirectionConfig, key: SecretKey | None, dimension: int
) -> UnitVectors:
    """v_b for any unit b, under the configuration's `prf`; under one secret key each scheme has its own."""
    if config.prf == "official":
        signed = official_directions(
            config.direction_seed, config.sign_seed, config.channels, dimension, config.scored_units
        )
    else:
        signed = secret_directions(require_key(key, scheme), scheme, version, config.channels, dimension)
    return UnitVectors(signed, dimension)
