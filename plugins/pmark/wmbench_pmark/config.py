"""Settings of PMark."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from wmbench.semantics.scan_config import BlockConfig


class PMarkConfig(BlockConfig):
    """The defaults are those of the DenMark paper's appendix: the offline variant, whose medians are 0."""

    channels: int = Field(2, ge=1, description="b: directions (pivots), shared by all units, each with a bit per unit.")
    median: Literal["prior", "lower", "harrell_davis"] = Field(
        "prior",
        description="What completions are compared with. prior: 0, as the detector does. lower, harrell_davis: the "
        "median of the completions left, by either estimate (the online variant).",
    )
    tolerance: float = Field(1e-3, ge=0, description="A cosine so close to 0 counts as being on the right side.")
    sharpness: float = Field(250.0, ge=0, description="A unit on the wrong side counts exp(-sharpness |cosine|).")
    pivot_seed: int = Field(42, ge=0, description="Seed of the pivots under `prf: official`.")
    bit_seed: int = Field(0, ge=0, description="Seed of the bits under `prf: official`.")
