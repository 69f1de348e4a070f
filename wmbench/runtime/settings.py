"""How to decode: the part of the run configuration that the runtime reads."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

ScheduleName = Literal["block", "origin", "quota", "threshold"]
PositionPolicy = Literal["random", "low_confidence", "margin", "entropy", "left_to_right"]


class Decoding(BaseModel):
    """Decoding settings, the same for every scheme of a comparison."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    max_new_tokens: int = Field(300, ge=1, description="Length of the generated region of the canvas.")
    schedule: ScheduleName = Field(
        "block",
        description="block: LLaDA's blocks with transfer budgets; origin: Dream's Bernoulli time; "
        "quota: Dream's maskgit_plus / topk_margin / entropy; threshold: LLaDA2.0's confident blocks.",
    )
    block_length: int | None = Field(None, ge=1, description="Tokens per decoding block (block, threshold); None: one.")
    block_origin: Literal["answer", "prompt"] = Field(
        "answer", description="Blocks count from the first generated token, or from the first prompt token."
    )
    steps: int | None = Field(None, ge=1, description="Denoising steps in all; None: one token per step.")
    tokens_per_step: int | None = Field(None, ge=1, description="Fixed budget per step instead of `steps`.")
    eps: float = Field(1e-3, gt=0, lt=1, description="Last time of the origin and quota schedules.")
    threshold: float = Field(0.95, ge=0, le=1, description="Confidence above which `threshold` commits at once.")
    positions: PositionPolicy = Field(
        "random", description="Which open positions are filled first; `origin` draws its own."
    )
    position_temperature: float = Field(
        0.0, ge=0, description="0: most confident first; above: drawn without replacement by confidence."
    )
    tempered_confidence: bool = Field(
        False, description="Confidence from the tempered, filtered distribution (Dream) instead of the raw one (LLaDA)."
    )
    temperature: float = Field(0.5, ge=0, description="Token temperature; 0 is greedy.")
    top_k: int | None = Field(None, ge=1)
    top_p: float | None = Field(None, gt=0, le=1)
    guidance: float = Field(
        0.0, ge=0, description="Classifier-free guidance w (LLaDA's cfg_scale): a second forward without the prompt."
    )
    eos: Literal["continue", "stop", "ban"] = Field(
        "continue", description="continue: nothing special; stop: end a row at its first EOS; ban: never emit EOS."
    )
    eos_last: bool = Field(False, description="Confidence policies place EOS only when nothing else is left.")
    max_visits: int = Field(4, ge=1, description="How often one position may be filled when a scheme re-masks.")

    @model_validator(mode="after")
    def _consistent(self) -> Decoding:
        if self.steps is not None and self.tokens_per_step is not None:
            raise ValueError("give either `steps` or `tokens_per_step`, not both")
        if self.tokens_per_step is not None and self.schedule not in ("block", "threshold"):
            raise ValueError(f"`tokens_per_step` does not apply to the {self.schedule} schedule; use `steps`")
        blocks = -(-self.max_new_tokens // (self.block_length or self.max_new_tokens))
        if self.steps is not None and self.schedule in ("block", "threshold") and self.steps % blocks:
            raise ValueError(f"`steps` ({self.steps}) must be a multiple of the number of blocks ({blocks})")
        return self
