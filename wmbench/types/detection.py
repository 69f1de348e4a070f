"""From texts to verdicts: features, scores, decisions; and the unmarked texts that they are judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from wmbench.types.arrays import AnyArray, IntArray


@dataclass(frozen=True, slots=True)
class TextContext:
    """Handed to `features`, `score` and `detect`."""

    alpha: float = 0.01
    evidence: bool = False
    """Ask for per-span evidence; off for bulk scoring."""


@dataclass(frozen=True, slots=True)
class Features:
    """Key-free features of n texts, packed: rows offsets[i]:offsets[i+1] of `values` belong to text i."""

    offsets: IntArray
    values: AnyArray
    lengths: IntArray
    """Tokens of each text after retokenisation."""

    def __len__(self) -> int:
        return len(self.lengths)

    def of(self, i: int) -> AnyArray:
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    @classmethod
    def pack(cls, parts: Sequence[AnyArray], lengths: Sequence[int]) -> Features:
        offsets = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        values = np.concatenate(parts) if len(parts) else np.empty(0, dtype=np.int64)
        return cls(offsets, values, np.asarray(lengths, dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One span of a text and what it contributes to the decision."""

    start: int
    """First token of the span (retokenised text)."""
    end: int
    """One past its last token."""
    weight: float
    """Contribution to the statistic; positive speaks for the watermark."""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Views:
    """Raw statistics of n texts, one column per view (DenMark: one per unit size). Larger = more watermarked."""

    names: tuple[str, ...]
    scores: npt.NDArray[np.float64]
    """[n, views]"""
    evidence: tuple[Mapping[str, tuple[Evidence, ...]], ...] | None = None
    """Per text: evidence by view name, when the context asked for it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one text."""

    p_value: float
    """In (0, 1]; valid under the null the calibration stands for."""
    score: float
    """Ranking score; larger = more watermarked, for every scheme."""
    detected: bool
    """p_value <= alpha."""
    alpha: float
    view: str
    """The view that decided."""
    method: str
    """How p was obtained, e.g. `empirical add-one, Bonferroni over 26 views`."""
    evidence: tuple[Evidence, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NullText:
    """One unwatermarked text for calibration."""

    id: str
    text: str
    family: str
    """human, lab, clean:<backbone>, ..."""
    document: str = ""
    """Texts cut from one document share it; calibration and held-out sets are split by document."""
    domain: str = ""
