"""From a prompt to a text: what goes into the denoising loop and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wmbench.types.arrays import IntArray


@dataclass(frozen=True, slots=True)
class Sample:
    """One prompt to be answered once."""

    id: str
    """Unique in a run; with the run seed it fixes all randomness of the sample."""
    prompt: str
    dataset: str = ""
    index: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict)
    """JSON values; they stand beside the prompt in the files of a run."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What a denoising step decides: a flat, ragged list of cells to fill, and cells to give back.

    `rows` index the step's rows; `columns` are absolute canvas columns (prompt included).
    """

    rows: IntArray
    columns: IntArray
    tokens: IntArray
    remask_rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    remask_columns: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, cells: Sequence[tuple[int, int, int]] = (), remask: Sequence[tuple[int, int]] = ()) -> Commit:
        """From plain (row, column, token) triples and (row, column) pairs."""
        filled = np.array(cells, dtype=np.int64).reshape(-1, 3)
        given_back = np.array(remask, dtype=np.int64).reshape(-1, 2)
        return cls(filled[:, 0], filled[:, 1], filled[:, 2], given_back[:, 0], given_back[:, 1])


@dataclass(frozen=True, slots=True)
class Cost:
    """What a sample has cost so far. Additive over samples, independent of how they were batched."""

    forward_rows: int = 0
    """Canvases sent through the trunk."""
    forward_tokens: int = 0
    """Positions sent through the trunk, padding not counted."""
    head_rows: int = 0
    """Positions sent through the LM head."""
    steps: int = 0
    """Denoising steps."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A finished sample."""

    sample: Sample
    text: str
    token_ids: tuple[int, ...]
    """Generated ids, prompt excluded. Never used by detection, which retokenises `text`."""
    cost: Cost
