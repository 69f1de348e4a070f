"""The lab's own attacks: the language knows what a sentence means, so it can say it again in other words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from wmbench.hookspecs import hookimpl
from wmbench.lab.language import stable_hash
from wmbench.lab.paraphrase import Mode, paraphrase
from wmbench.lab.wording import HeldOut
from wmbench.types import AttackContext, Attacked, AttackInput


class LabAttackConfig(BaseModel):
    """Settings of the lab attacks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    held_out: HeldOut = Field(
        "with",
        description="The fifth of frames and words that no encoder was trained on: used with the others, "
        "not used, or the only ones that are changed to.",
    )


class LabLengthConfig(LabAttackConfig):
    """Settings of the lab attacks that change the length."""

    shortest: float | None = Field(None, gt=0, description="Fewest words of the result, as a share of those before.")
    longest: float | None = Field(None, gt=0, description="Most words of the result, as a share of those before.")

    @model_validator(mode="after")
    def _is_a_band(self) -> LabLengthConfig:
        if (self.shortest is None) != (self.longest is None):
            raise ValueError("give both `shortest` and `longest`, or neither")
        if self.shortest is not None and self.longest is not None and self.shortest > self.longest:
            raise ValueError("`shortest` is above `longest`")
        return self

    @property
    def aim(self) -> tuple[float, float] | None:
        """The middle of the band: a result misses its aim by a word or two."""
        if self.shortest is None or self.longest is None:
            return None
        quarter = (self.longest - self.shortest) / 4
        return self.shortest + quarter, self.longest - quarter


class LabAttack:
    """Paraphrases in one mode; the subclasses name it."""

    mode: ClassVar[Mode]

    def __init__(self, config: LabAttackConfig | None = None) -> None:
        self.config = config or LabAttackConfig()
        self._aim = self.config.aim if isinstance(self.config, LabLengthConfig) else None

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        return [self._one(item, context.seed) for item in texts]

    def _one(self, item: AttackInput, seed: int) -> Attacked:
        own_seed = stable_hash(f"{seed}\x1f{item.id}")
        result = paraphrase(item.text, self.mode, own_seed, held_out=self.config.held_out, aim=self._aim)
        details = {
            "coverage": result.coverage.fragments,
            "statements": len(result.meaning_before.statements),
            "words_before": len(item.text.split()),
            "words_after": len(result.text.split()),
        }
        if result.text.casefold().split() == item.text.casefold().split():
            # An attack that did nothing but tidy capitals would make a scheme look robust.
            why = "the lab language can change nothing in this text"
            return Attacked(None, error=f"{why} ({details['coverage']:.0%} of it recognised)", details=details)
        return Attacked(result.text, details=details)


class Rewrite(LabAttack):
    mode = "rewrite"


class Compress(LabAttack):
    mode = "compress"


class Expand(LabAttack):
    mode = "expand"


class DocumentRewrite(LabAttack):
    mode = "document"
