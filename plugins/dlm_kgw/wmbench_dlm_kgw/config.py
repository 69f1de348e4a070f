"""Settings of DLM-KGW; the names are those of the published code where it has one."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from wmbench.prf import Prf, PrfConfig


class DlmKgwConfig(PrfConfig):
    """Defaults are the settings of the DenMark paper."""

    delta: float = Field(
        4.0, ge=0, description="Strength in logits; with `enforce_kl` the budget per token in nats instead."
    )
    gamma: float = Field(0.25, gt=0, lt=1, description="Probability that a (context hash, token) pair is green.")
    greenlist_type: Literal["bernoulli", "gaussian", "lognormal"] = Field(
        "bernoulli", description="What a pair is worth: 1 if green, else 0; or a normal or log-normal number."
    )
    topk: int = Field(50, ge=1, description="Tokens, and context hashes, per position that enter the expectation.")
    convolution_kernel: tuple[int, ...] = Field(
        (-1,), min_length=1, description="Offsets of the context tokens, relative to the token they colour."
    )
    seeding_scheme: Literal["sumhash", "minhash"] = Field(
        "sumhash", description="How a context becomes one hash: sum of its ids, or least rank in a fixed order."
    )
    n_iter: int = Field(1, ge=1, description="Rounds of boosting; later rounds see the boosted neighbours.")
    booster_only: bool = Field(False, description="Expectation boost only: be green under one's own context.")
    greenify_only: bool = Field(False, description="Predictive bias only: be a context that makes others green.")
    enforce_kl: bool = Field(False, description="Choose each position's strength so that KL(q || p) meets `delta`.")
    prf: Prf = Field(
        "hmac", description="hmac: colours depend on the secret key; official: the published constant, no key."
    )
    p_value: Literal["empirical", "exact"] = Field(
        "empirical",
        description="empirical: the host's calibration by null texts; exact: binomial (normal, log-normal) tail.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> DlmKgwConfig:
        if self.booster_only and self.greenify_only:
            raise ValueError("`booster_only` and `greenify_only` exclude each other")
        if len(set(self.convolution_kernel)) < len(self.convolution_kernel):
            raise ValueError("`convolution_kernel` names an offset twice")
        return self
