"""From the key to one vector per unit: DenMark's part of `wmbench.semantics.channels`."""

from __future__ import annotations

from wmbench.errors import ConfigError
from wmbench.keys import SecretKey
from wmbench.semantics.channels import Floats, Signs, official_channels, official_directions, secret_directions
from wmbench.semantics.channels import UnitVectors as AnyUnitVectors
from wmbench.semantics.channels import secret_channels as channels_of
from wmbench.types import IntArray
from wmbench_denmark.config import DenMarkConfig

__all__ = ["UnitVectors", "official_channels", "secret_channels"]

_SCHEME = "denmark", 1


def secret_channels(key: SecretKey, units: IntArray, channels: int, dimension: int) -> tuple[Floats, Signs]:
    """Directions [units, C, dimension] of length 1 and signs [units, C], by HMAC of the key."""
    return channels_of(key, *_SCHEME, units, channels, dimension)


class UnitVectors(AnyUnitVectors):
    """v_b for any unit b under the configuration's `prf`."""

    def __init__(self, config: DenMarkConfig, key: SecretKey | None, dimension: int) -> None:
        if config.prf == "official":
            signed = official_directions(config.direction_seed, config.sign_seed, config.channels, dimension)
        elif key is None:
            raise ConfigError("DenMark needs a key", hint="make one with `wmbench key new`")
        else:
            signed = secret_directions(key, *_SCHEME, config.channels, dimension)
        super().__init__(signed, dimension)
