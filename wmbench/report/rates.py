"""Figures of a report: estimates with their intervals, and what they were measured on."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """Read leniently: a newer metrics.json may have fields that this version does not know."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


class Rate(Part):
    """An estimate with its 95% interval."""

    estimate: float
    low: float
    high: float
    n: tuple[int, ...] = ()
    """Independent units behind it: trials, or resampled units of each sample."""
    method: str = ""


class Tpr(Part):
    """True-positive rate at one false-positive rate."""

    threshold: Rate | None = None
    """Highest TPR with FPR <= target on the held-out null texts (the paper's rule); null: out of reach."""
    split: Rate | None = None
    """Share with p <= target, a threshold that the calibration fixed; null: out of reach."""
    interpolated: float | None = None
    """As the authors' code computes it; no threshold attains it."""
    interpolated_interval: Rate | None = None
    """The same with its interval."""


class LengthBin(Part):
    """Texts of similar length."""

    tokens: float
    """Their median length."""
    detected: Rate
    """Share with p <= alpha."""


class Family(Part):
    """False positives on one family of unmarked texts."""

    family: str
    n: int
    attack: str | None = None
    """The attack that the null texts went through; null: none."""
    fpr: dict[str, Rate | None]


class KeyRate(Part):
    """A mean over keys. One key alone has no interval, since it moves all texts together."""

    estimate: float
    low: float | None = None
    high: float | None = None


class LikeLengthRate(Part):
    """A mean over keys, every text compared with held-out null texts of like length only."""

    estimate: float | None = None
    """Null: too few null texts are of like length, see `why`."""
    low: float | None = None
    high: float | None = None
    percent: float
    """How far the lengths may differ, in percent of the text's."""
    texts: int
    """Texts that were compared."""
    unmatched: int = 0
    """Texts that were left out, since too few null texts are of their length."""
    nulls: tuple[int, int]
    """Fewest and most null texts that a text was compared with."""
    why: str = ""


class KeyFamily(Part):
    """False positives of one family, averaged over wrong keys."""

    family: str
    fpr: dict[str, KeyRate | None]


class WrongKeys(Part):
    """The same texts under keys that marked nothing, averaged over keys."""

    n: int = 0
    why: str = ""
    """Why there are none."""
    samples_auc: KeyRate | None = None
    """Marked texts against held-out null texts of all lengths."""
    samples_auc_like_length: LikeLengthRate | None = None
    clean_auc: KeyRate | None = None
    """Clean texts against held-out null texts of all lengths: texts that are longer than those differ from them."""
    clean_auc_like_length: LikeLengthRate | None = None
    """The control that texts without a mark have an AUC of one half."""
    fpr: KeyRate | None = None
    """On the held-out null texts, at alpha."""
    families: list[KeyFamily] = Field(default_factory=list)
