"""The setting that every published scheme has: whose pseudorandom function decides, the user's or the published one."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from wmbench.types import KeyUse

Prf = Literal["hmac", "official"]


class PrfConfig(BaseModel):
    """Settings of a scheme that can be run as published, or with a secret key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    prf: Prf = Field("hmac", description="hmac: from the secret key; official: the published constants, no key.")

    @property
    def key_use(self) -> KeyUse:
        """What the host asks: under `official` there is no secret, and no wrong key to try."""
        return "secret" if self.prf == "hmac" else "fixed"
