"""Settings of SemStamp."""

from __future__ import annotations

from pydantic import Field, model_validator

from wmbench.semantics.scan_config import BlockConfig


class SemStampConfig(BlockConfig):
    """The defaults are those of the DenMark paper's appendix. `candidates` are drawn at a time."""

    bits: int = Field(2, ge=1, le=10, description="d: hyperplanes; they cut the space of meanings into 2^d bins.")
    rate: float = Field(0.25, gt=0, lt=1, description="Share of bins that are valid after any given bin.")
    margin: float = Field(
        0.02, ge=0, lt=1, description="Least |cosine| with every hyperplane's normal, so that bins survive a rewrite."
    )
    trials: int = Field(100, ge=1, description="Completions of a block that are drawn at most.")
    lsh_seed: int = Field(1234, ge=0, lt=2**32, description="Seed of the hyperplanes under `prf: official`.")

    @property
    def bins(self) -> int:
        return int(2**self.bits)

    @property
    def valid_bins(self) -> int:
        """Valid bins after any given bin."""
        return int(self.bins * self.rate)

    @model_validator(mode="after")
    def _something_is_valid(self) -> SemStampConfig:
        if not self.valid_bins:
            raise ValueError(f"{self.rate:g} of {self.bins} bins is none: raise `rate` or `bits`")
        return self
