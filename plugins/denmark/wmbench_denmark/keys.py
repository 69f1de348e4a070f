"""From the key to one vector per unit: DenMark's part of `wmbench.semantics.channels`."""

from __future__ import annotations

from wmbench.keys import SecretKey
from wmbench.semantics import channels
from wmbench_denmark.config import DenMarkConfig

SCHEME, VERSION = "denmark", 1
"""Separate its pseudorandom values from those of other schemes under the same key."""


def unit_vectors(config: DenMarkConfig, key: SecretKey | None, dimension: int) -> channels.UnitVectors:
    return channels.unit_vectors(SCHEME, VERSION, config, key, dimension)
