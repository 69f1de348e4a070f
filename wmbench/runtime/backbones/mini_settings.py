"""Settings of the embedded backbone. Imports no torch: detection needs no more than these and the tokenizer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class MiniConfig(BaseModel):
    """Settings of the embedded backbone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attention: Literal["block", "full"] = Field(
        "block", description="block: bidirectional inside a block, causal across blocks; full: bidirectional."
    )
    attention_block: int = Field(25, ge=1, description="Attention block, counted from the end of the prompt.")
    device: str = "cpu"


class FullMiniConfig(MiniConfig):
    """Settings of `mini-full`."""

    attention: Literal["block", "full"] = "full"
