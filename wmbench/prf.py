"""The setting that every published scheme has: whose pseudorandom function decides, the user's or the published one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from wmbench.errors import ConfigError
from wmbench.types import KeyUse

if TYPE_CHECKING:
    from wmbench.keys import SecretKey

Prf = Literal["hmac", "official"]


class PrfConfig(BaseModel):
    """Settings of a scheme that can be run as published, or with a secret key."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    prf: Prf = Field("hmac", description="hmac: from the secret key; official: the published constants, no key.")

    @property
    def key_use(self) -> KeyUse:
        """What the host asks: under `official` there is no secret, and no wrong key to try."""
        return "secret" if self.prf == "hmac" else "fixed"


def require_key(key: SecretKey | None, scheme: str) -> SecretKey:
    """The key that `prf: hmac` needs; without one the error says where keys come from."""
    if key is None:
        raise ConfigError(f"{scheme} needs a key", hint="make one with `wmbench key new`, or set prf=official")
    return key
