"""From the key to one vector per unit: DenMark's part of `wmbench.semantics.channels`."""

from __future__ import annotations

from wmbench.keys import SecretKey
from wmbench.semantics.channels import UnitVectors
from wmbench.semantics.channels import unit_vectors as keyed_vectors
from wmbench_denmark.config import DenMarkConfig

SCHEME, VERSION = "denmark", 1
"""Separate its pseudorandom values from those of other schemes under the same key."""


def unit_vectors(config: DenMarkConfig, key: SecretKey | None, dimension: int) -> UnitVectors:
    return keyed_vectors(SCHEME, VERSION, config, key, dimension)
