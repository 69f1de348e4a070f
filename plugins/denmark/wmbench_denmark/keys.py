"""From the key to one vector per unit: DenMark's part of `wmbench.semantics.channels`."""

from __future__ import annotations

from wmbench.errors import ConfigError
from wmbench.keys import SecretKey
from wmbench.semantics.channels import UnitVectors, official_directions, secret_directions
from wmbench_denmark.config import DenMarkConfig

SCHEME, VERSION = "denmark", 1
"""Separate its pseudorandom values from those of other schemes under the same key."""


def unit_vectors(config: DenMarkConfig, key: SecretKey | None, dimension: int) -> UnitVectors:
    """v_b for any unit b, under the configuration's `prf`."""
    if config.prf == "official":
        signed = official_directions(config.direction_seed, config.sign_seed, config.channels, dimension)
    elif key is None:
        raise ConfigError("DenMark needs a key", hint="make one with `wmbench key new`")
    else:
        signed = secret_directions(key, SCHEME, VERSION, config.channels, dimension)
    return UnitVectors(signed, dimension)
