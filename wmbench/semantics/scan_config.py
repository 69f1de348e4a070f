"""Settings that semantic schemes share: encoder, unit size, the detector's scan, block decoding."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from wmbench.prf import PrfConfig


class ScanConfig(PrfConfig):
    """Encoder and scan. The defaults are those of the DenMark paper."""

    encoder: str = Field("mini", description="Registered name of the sentence encoder; detection needs the same.")
    dimension: int | None = Field(None, ge=1, description="Width of its vectors, checked when given.")
    unit_size: int = Field(25, ge=1, description="m: tokens per semantic unit.")
    detector: Literal["scan", "fixed"] = Field("scan", description="Scan all sizes, or look at `unit_size` only.")
    scan_sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        tuple(range(12, 38)), min_length=1, description="G: unit sizes the detector scans; a list, or `12..37`."
    )
    scan_rule: Literal["bonferroni", "min_p"] = Field(
        "bonferroni", description="How the sizes' p-values are combined; min_p is sharper and not the paper's."
    )
    units: Literal["all", "reference"] = Field(
        "all", description="all: score every unit (paper); reference: the first ones only (the authors' code)."
    )
    reference_tokens: int = Field(
        300, ge=1, description="Tokens read under `units: reference`, and so many / unit_size units."
    )

    @field_validator("scan_sizes", mode="before")
    @classmethod
    def _range(cls, value: Any) -> Any:
        borders = re.fullmatch(r"(\d+)\.\.(\d+)", value) if isinstance(value, str) else None
        sizes = tuple(range(int(borders[1]), int(borders[2]) + 1)) if borders else value
        if sizes is None or sizes in ((), [], ""):
            raise ValueError("no unit size: write a list, or FIRST..LAST with FIRST <= LAST")
        return sizes

    @field_validator("scan_sizes")
    @classmethod
    def _distinct(cls, sizes: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(sizes)) < len(sizes):
            raise ValueError("a size is listed twice")
        return tuple(sorted(sizes))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Unit sizes the detector looks at: one view each."""
        return self.scan_sizes if self.detector == "scan" else (self.unit_size,)

    @property
    def scored_tokens(self) -> int | None:
        """Tokens of a text that are scored; None: all."""
        return self.reference_tokens if self.units == "reference" else None

    @property
    def scored_units(self) -> int | None:
        """Units of a text that are scored at any size; None: all."""
        return -(-self.reference_tokens // self.unit_size) if self.units == "reference" else None


class BlockConfig(ScanConfig):
    """What all block-decoded schemes have; the defaults are those of the DenMark paper's appendix."""

    candidates: int = Field(16, ge=1, description="Completions of a block that are drawn side by side.")
    block_temperature: float | None = Field(
        0.9, ge=0, description="Temperature of completions: they must differ in meaning; null: that of the run."
    )
