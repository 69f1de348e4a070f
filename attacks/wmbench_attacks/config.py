"""What the settings of all attacks have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class AttackConfig(BaseModel):
    """Settings of an attack: they do not change; an unknown name, or a number that is none, is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
