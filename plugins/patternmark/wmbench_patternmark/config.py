"""Settings of PatternMark."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from wmbench.prf import Prf, PrfConfig

_MOST_TAILS = 4096


class PatternMarkConfig(PrfConfig):
    """Defaults are the settings of the DenMark paper."""

    delta: float = Field(4.0, ge=0, description="Added to the logits of the tokens of a position's key colour.")
    colours: int = Field(2, ge=2, le=127, description="Parts of equal size into which the vocabulary is cut.")
    initial_state: tuple[float, ...] = Field(
        (0.5, 0.5), description="Weights of the colours from which the first key is drawn, by one transition."
    )
    transition_matrix: tuple[tuple[float, ...], ...] = Field(
        ((0.0, 1.0), (1.0, 0.0)), description="Weights of the next key (column) after a key (row); need not sum to 1."
    )
    patterns: tuple[tuple[int, ...], ...] = Field(
        ((0, 1, 0, 1), (1, 0, 1, 0)), min_length=1, description="Colour patterns to count, all of one length."
    )
    max_tokens: int | None = Field(
        300, ge=1, description="Only so many tokens at the beginning of a text are examined; None: all of them."
    )
    prf: Prf = Field(
        "hmac", description="hmac: the partition depends on the secret key; official: the published constant, no key."
    )
    p_value: Literal["empirical", "exact"] = Field(
        "empirical", description="empirical: the host's calibration by null texts; exact: law of the pattern count."
    )

    @property
    def pattern_length(self) -> int:
        return len(self.patterns[0])

    @model_validator(mode="after")
    def _consistent(self) -> PatternMarkConfig:
        if any(len(pattern) != self.pattern_length for pattern in self.patterns) or not self.pattern_length:
            raise ValueError("all `patterns` must have the same length, at least 1")
        if any(not 0 <= colour < self.colours for pattern in self.patterns for colour in pattern):
            raise ValueError(f"`patterns` are made of the colours 0 to {self.colours - 1}")
        if self.colours ** (self.pattern_length - 1) > _MOST_TAILS:
            raise ValueError(f"the null law needs colours ** (pattern length - 1) <= {_MOST_TAILS}")
        weights = (self.initial_state, *self.transition_matrix)
        if len(weights) != self.colours + 1 or any(len(row) != self.colours for row in weights):
            raise ValueError("`initial_state` needs one weight, `transition_matrix` one row and column, per colour")
        if any(min(row) < 0 or sum(row) <= 0 for row in weights):
            raise ValueError("weights must not be negative, nor all zero")
        return self
