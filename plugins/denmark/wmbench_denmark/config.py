"""Settings of DenMark. The defaults are those of the paper's main results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, model_validator

from wmbench.prf import Prf
from wmbench.semantics.scan_config import ScanConfig

Preset = Literal["paper", "fast"]
PositionPolicy = Literal["random", "low_confidence"]
PositionScope = Literal["unit", "block"]
RolloutSchedule = Literal["linear", "constant"]

PRESETS: Mapping[Preset, Mapping[str, Any]] = {
    "paper": {},
    "fast": {"positions_per_candidate": 4},
}
"""Settings that a preset puts below the user's own."""


class DenMarkConfig(ScanConfig):
    """How units are marked; how they are found again is inherited."""

    preset: Preset = Field("paper", description="paper: one position per step; fast: four (r_t = 4).")
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
    position_scope: PositionScope = Field(
        "unit",
        description="Where candidates may fill: anywhere in their unit, or only where the schedule's present block "
        "reaches into it, for models that write well in short blocks only.",
    )
    same_positions: bool = Field(False, description="All candidates of a unit share their positions.")
    candidate_temperature: float | None = Field(
        0.6, ge=0, description="Temperature of candidate tokens; null: that of the run."
    )
    candidate_top_p: float | None = Field(
        None, gt=0, le=1, description="Nucleus of candidate tokens, as in the authors' code; null: that of the run."
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
    likelihood_weight: float = Field(
        0.0,
        ge=0,
        description="Choose by the score plus this weight times the log-probability of the candidate's tokens, as in "
        "the authors' code for Dream (0: by the score alone). Spends likelihood only where it buys score.",
    )
    prefilter: int | None = Field(
        None,
        ge=1,
        description="Approximate: score all candidates by rollouts of the base distribution, which needs no forward, "
        "and look ahead only at this many.",
    )
    stale_context: bool = Field(
        False,
        description="Approximate, full attention only: look ahead with the keys and values of the base forward outside "
        "of the unit, so that a candidate costs the unit's columns instead of the whole canvas.",
    )

    prf: Prf = Field(
        "hmac", description="hmac: from the secret key; official: the authors' public seeds (to reproduce, not to use)."
    )
    direction_seed: int = Field(42, ge=0, lt=2**64, description="Seed of the directions under `prf: official`.")
    sign_seed: int = Field(0, ge=0, lt=2**64, description="Seed of the signs under `prf: official`.")

    @model_validator(mode="before")
    @classmethod
    def _preset_below_the_rest(cls, values: Any) -> Any:
        preset = values.get("preset", "paper") if isinstance(values, dict) else None
        return {**PRESETS[preset], **values} if preset in tuple(PRESETS) else values

    @model_validator(mode="after")
    def _consistent(self) -> DenMarkConfig:
        if self.prefilter is not None and self.prefilter >= self.candidates:
            raise ValueError(f"`prefilter` keeps some of the {self.candidates} candidates, so it must be smaller")
        return self
