"""Settings of DGMark."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from wmbench.prf import Prf, PrfConfig


class DgMarkConfig(PrfConfig):
    """The defaults are those of the DenMark paper's runs on LLaDA, except for the keyed parity."""

    prf: Prf = Field(
        "hmac",
        description="Parity bit of a token. hmac: a secret, exactly balanced one. official: its id mod 2, no key.",
    )
    beam: int = Field(
        10, ge=1, description="Positions that are looked ahead at in a step; 1: best reward, no look-ahead."
    )
    candidates: Literal["two_stage", "multinomial"] = Field(
        "two_stage",
        description="Token drawn for a position. two_stage: as in the DenMark runs, see `candidate_top_k`. "
        "multinomial: one draw at the run's temperature. At temperature 0 both take the most likely token.",
    )
    candidate_top_k: int = Field(
        10, ge=1, description="two_stage: noise at the run's temperature keeps this many tokens, a draw at 1 takes one."
    )
    reward: Literal["probability", "margin", "entropy"] = Field(
        "probability",
        description="What ranks positions: the candidate's probability, the margin, or minus the entropy.",
    )
    fallback: Literal["best_reward", "look_ahead"] = Field(
        "best_reward",
        description="When no candidate has its parity. best_reward: fill the surest position (as in the DenMark runs). "
        "look_ahead: search the surest positions (as in the DGMark paper).",
    )
    window: int = Field(8, ge=1, description="Tokens per window of the detector.")
    statistic: Literal["windowed", "pairs", "global"] = Field(
        "windowed",
        description="windowed: mean squared z of all windows. global: |z| of the whole text; either sign, because the "
        "parity of the prompt's length is not known to the detector. pairs: z of the agreement of all pairs of tokens, "
        "the nearer the more; not the paper's.",
    )
    decay: float = Field(
        0.95, gt=0.0, lt=1.0, description="pairs: the weight of a pair falls by this factor with every token between."
    )
    p_value: Literal["empirical", "normal"] = Field(
        "empirical", description="empirical: rank among null texts. normal: two-sided law of the global z."
    )

    @model_validator(mode="after")
    def _has_a_law(self) -> DgMarkConfig:
        if self.p_value == "normal" and self.statistic != "global":
            raise ValueError(
                f"`statistic: {self.statistic}` has no normal law: set `statistic: global`, or `p_value: empirical`"
            )
        return self
