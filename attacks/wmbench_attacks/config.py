"""What the settings of all attacks have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class AttackConfig(BaseModel):
    """Settings of an attack: they do not change, and a name that is no setting is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
