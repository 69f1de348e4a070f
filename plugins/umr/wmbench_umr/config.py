"""Settings of UMR."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from wmbench.prf import Prf, PrfConfig


class UmrConfig(PrfConfig):
    """The defaults are those of the DenMark paper's runs, except for the keyed bitmap."""

    prf: Prf = Field(
        "hmac",
        description="Bitmap of token pairs. hmac: from the secret key. official: from `official_key`, as published.",
    )
    official_key: int = Field(42, ge=0, description="The published constant key, for `prf: official` only.")
    message: str = Field("1001", pattern="^[01]{1,64}$", description="Bits that the text carries.")
    ratio: float = Field(0.5, gt=0, lt=1, description="Share of hits among the successors of a token.")
    delta: float = Field(10.0, ge=0, description="Strength: a hit is 1 + delta times as probable.")
    strategy: Literal["bidirectional", "normal"] = Field(
        "bidirectional", description="Neighbours that count when filled: both, or (normal) the previous one only."
    )
    regret: bool = Field(True, description="Mask tokens again, once, that miss although both neighbours are filled.")
    candidates: int = Field(
        64,
        ge=2,
        description="Best tokens of a position that modulation may choose from (official: one bitmap row each).",
    )
    scored_tokens: int | None = Field(
        300, ge=2, description="The detector reads this many tokens of a text; None: all of them."
    )
    p_value: Literal["empirical", "normal"] = Field(
        "empirical", description="empirical: rank among null texts. normal: the law of z for independent fair hits."
    )

    @field_validator("message", mode="before")
    @classmethod
    def _bits_without_quotes(cls, value: object) -> object:
        """YAML reads unquoted bits as a number; those that begin with a 0 as an octal one, so that they are lost."""
        if not isinstance(value, int) or isinstance(value, bool):
            return value
        if value > 1 and set(str(value)) <= {"0", "1"}:
            return str(value)
        raise ValueError("put the bits in quotes, for instance `-S 'message=\"0101\"'`: without them they are a number")
