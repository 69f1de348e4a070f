"""Settings of Block Best-of-K."""

from __future__ import annotations

from pydantic import Field

from wmbench.semantics.scan_config import BlockConfig


class BestOfKConfig(BlockConfig):
    """The defaults are those of the DenMark paper's appendix."""

    channels: int = Field(2, ge=1, description="C: keyed directions per unit.")
    direction_seed: int = Field(42, ge=0, lt=2**64, description="Seed of the directions under `prf: official`.")
    sign_seed: int = Field(0, ge=0, lt=2**64, description="Seed of the signs under `prf: official`.")
