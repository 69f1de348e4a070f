"""Which generated texts count: the paper's filters, the same for clean and marked texts, before any attack.

In this order: empty, fewer than 150 tokens, more than a fifth of the word 4-grams repeated, a text seen before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from wmbench.types import TextCodec

Reason = Literal["empty", "short", "repetitive", "duplicate_text"]


class FilterSettings(BaseModel):
    """What a text must be to count."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    min_tokens: int = Field(150, ge=0, description="Tokens of the generator's tokenizer after retokenising.")
    max_repetition: float = Field(0.2, ge=0, le=1, description="Largest repeated 4-gram ratio; it may be reached.")
    strict_repetition: bool = Field(False, description="It may not be reached: the wording of the paper, not its code.")


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """Whether one text counts, and what was measured."""

    reason: Reason | None
    """Why it was removed; None when it is kept."""
    tokens: int
    repetition: float

    @property
    def kept(self) -> bool:
        return self.reason is None


def normalised(text: str) -> str:
    """Words parted by single spaces. `NEWLINE_CHAR` is what some data sets write for a line break."""
    return " ".join(text.replace("NEWLINE_CHAR", " ").split())


def repetition(text: str, n: int = 4) -> float:
    """Share of the word n-grams that repeat an earlier one; case-sensitive, 0 for n words or fewer."""
    words = text.split()
    if len(words) <= n:
        return 0.0
    grams = Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))
    return sum(times - 1 for times in grams.values()) / grams.total()


def filter_texts(texts: Iterable[str], codec: TextCodec, settings: FilterSettings | None = None) -> list[FilterVerdict]:
    """One verdict per text, in order; of equal texts the first is kept."""
    limits = settings or FilterSettings()
    cleaned = [normalised(text) for text in texts]
    seen: set[str] = set()
    verdicts = []
    for text, ids in zip(cleaned, codec.encode_batch(cleaned), strict=True):
        repeated = repetition(text)
        reason: Reason | None = None
        if not text:
            reason = "empty"
        elif len(ids) < limits.min_tokens:
            reason = "short"
        elif repeated > limits.max_repetition or (limits.strict_repetition and repeated == limits.max_repetition):
            reason = "repetitive"
        elif text in seen:
            reason = "duplicate_text"
        else:
            seen.add(text)
        verdicts.append(FilterVerdict(reason, len(ids), repeated))
    return verdicts
