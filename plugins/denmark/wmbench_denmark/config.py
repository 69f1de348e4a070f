"""Settings of DenMark. The defaults are those of the paper's main results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Preset = Literal["paper", "fast"]
PositionPolicy = Literal["random", "low_confidence"]
RolloutSchedule = Literal["linear", "constant"]

PRESETS: Mapping[Preset, Mapping[str, Any]] = {
    "paper": {},
    "fast": {"positions_per_candidate": 4},
}
"""Settings that a preset puts below the user's own."""


class DenMarkConfig(BaseModel):
    """How units are marked, and how they are found again."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    preset: Preset = Field("paper", description="paper: one position per step; fast: four (r_t = 4).")
    encoder: str = Field("mini", description="Registered name of the sentence encoder; detection needs the same.")
    dimension: int | None = Field(None, ge=1, description="Width of its vectors, checked when given.")

    unit_size: int = Field(25, ge=1, description="m: tokens per semantic unit.")
    channels: int = Field(2, ge=1, description="C: keyed directions per unit.")
    candidates: int = Field(16, ge=1, description="K: candidates per active unit and step.")
    positions_per_candidate: int = Field(
        1,
        ge=1,
        description="r_t: positions each candidate fills. Under schedules that draw positions from the whole answer "
        "1 means the schedule's own draw, and more means so many positions, grouped by unit.",
    )
    position_policy: PositionPolicy = Field(
        "random", description="Positions of a candidate: drawn evenly, or where its tokens are likeliest."
    )
    same_positions: bool = Field(False, description="All candidates of a unit share their positions.")
    candidate_temperature: float | None = Field(
        0.6, ge=0, description="Temperature of candidate tokens; null: that of the run."
    )
    rollout_temperature: float | None = Field(0.5, ge=0, description="Temperature of rollouts; null: that of the run.")
    rollouts: int = Field(3, ge=1, description="R: rollouts per candidate, on average over a unit.")
    rollout_schedule: RolloutSchedule = Field(
        "linear", description="linear: from 2R - 1 at an empty unit down to 1; constant: always R."
    )
    common_random_numbers: bool = Field(
        True, description="Rollout i uses the same uniforms for all candidates of a step, which makes them comparable."
    )
    likely_fraction: float = Field(
        1.0, gt=0, le=1, description="Consider only this fraction of the candidates, the likeliest (1: all)."
    )
    prefilter: int | None = Field(
        None,
        ge=1,
        description="Approximate: score all candidates by rollouts of the base distribution, which needs no forward, "
        "and look ahead only at this many.",
    )

    prf: Literal["hmac", "official"] = Field(
        "hmac", description="hmac: from the secret key; official: the authors' public seeds (to reproduce, not to use)."
    )
    direction_seed: int = Field(42, ge=0, description="Seed of the directions under `prf: official`.")
    sign_seed: int = Field(0, ge=0, description="Seed of the signs under `prf: official`.")

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

    @model_validator(mode="before")
    @classmethod
    def _preset_below_the_rest(cls, values: Any) -> Any:
        return {**PRESETS.get(values.get("preset", "paper"), {}), **values} if isinstance(values, dict) else values

    @field_validator("scan_sizes", mode="before")
    @classmethod
    def _range(cls, value: Any) -> Any:
        borders = re.fullmatch(r"(\d+)\.\.(\d+)", value) if isinstance(value, str) else None
        return tuple(range(int(borders[1]), int(borders[2]) + 1)) if borders else value

    @field_validator("scan_sizes")
    @classmethod
    def _distinct(cls, sizes: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(sizes)) < len(sizes):
            raise ValueError("a size is listed twice")
        return tuple(sorted(sizes))

    @model_validator(mode="after")
    def _consistent(self) -> DenMarkConfig:
        if self.prefilter is not None and self.prefilter >= self.candidates:
            raise ValueError(f"`prefilter` keeps some of the {self.candidates} candidates, so it must be smaller")
        return self

    @property
    def sizes(self) -> tuple[int, ...]:
        """Unit sizes the detector looks at: one view each."""
        return self.scan_sizes if self.detector == "scan" else (self.unit_size,)

    @property
    def feature_settings(self) -> dict[str, Any]:
        """What the embeddings of a text depend on: runs that differ in other settings share them."""
        return {"encoder": self.encoder, "sizes": list(self.sizes), "scored_tokens": self.scored_tokens}

    @property
    def scored_tokens(self) -> int | None:
        """Tokens of a text that are scored; None: all."""
        return self.reference_tokens if self.units == "reference" else None

    @property
    def scored_units(self) -> int | None:
        """Units of a text that are scored at any size; None: all."""
        return -(-self.reference_tokens // self.unit_size) if self.units == "reference" else None
