"""The cells that a boost depends on: open cells, their contexts, and the cells whose context they are."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wmbench.runtime.step import Cells
from wmbench.types import IntArray

if TYPE_CHECKING:
    from wmbench.runtime.step import Step

_ROW_STRIDE = 1 << 32
"""Cells are numbered row * stride + column, so that a neighbour is a sum and a search."""


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Known cells, by row and column: committed ones, and masked ones that the step's forward can see."""

    codes: IntArray
    """[N] ascending."""
    tokens: IntArray
    """[N] committed ids; meaningless where masked."""
    masked: IntArray
    """Indices of the masked cells, ascending; their logits are needed."""
    open: IntArray
    """Indices of the open cells, in the step's order; all of them are masked."""

    @property
    def masked_cells(self) -> Cells:
        codes = self.codes[self.masked]
        return Cells(codes // _ROW_STRIDE, codes % _ROW_STRIDE)

    @property
    def open_among_masked(self) -> IntArray:
        """Places [open] of the open cells in `masked`."""
        return np.searchsorted(self.masked, self.open)

    def at(self, offset: int, cells: IntArray) -> IntArray:
        """Index of the cell `offset` columns away from each of `cells`; -1 if it does not exist or cannot be seen."""
        wanted = self.codes[cells] + offset
        index = np.minimum(np.searchsorted(self.codes, wanted), len(self.codes) - 1)
        return np.where(self.codes[index] == wanted, index, -1)

    @classmethod
    def of_canvas(cls, tokens: IntArray, is_masked: npt.NDArray[np.bool_], opened: IntArray) -> Neighbourhood:
        """A whole canvas."""
        return cls(np.arange(len(tokens)), tokens, np.flatnonzero(is_masked), opened)


def reach(kernel: tuple[int, ...], rounds: int) -> IntArray:
    """Relative columns on which the boost of column 0 depends.

    It depends on the tokens s = 0 and s = -o (column 0 is part of their context), and on all of their contexts s + o'.
    Every further round depends on neighbours of neighbours.
    """
    coloured = {0, *(-offset for offset in kernel)}
    once = coloured | {s + offset for s in coloured for offset in kernel}
    columns = {0}
    for _ in range(rounds):
        columns = {a + b for a, b in product(columns, once)}
    return np.array(sorted(columns), dtype=np.int64)


def neighbourhood(step: Step, kernel: tuple[int, ...], rounds: int) -> Neighbourhood:
    """Around the step's open cells. The canvas, prompt included, ends the neighbourhood on both sides; so does, for
    masked cells, the end of the window that the step forwards anyway: a model that is causal across blocks has no
    distribution for cells beyond it."""
    relative = reach(kernel, rounds)
    opened = step.open.rows * _ROW_STRIDE + step.open.columns
    codes, tokens, masked = [], [], []
    for r, row in enumerate(step.rows):
        columns = np.unique(step.open.columns[step.open.rows == r][:, None] + relative)
        columns = columns[(columns >= 0) & (columns < row.length)]
        ids = row.canvas[columns]
        is_masked = (ids == row.mask_id) & (columns >= row.start)
        known = ~is_masked | (columns < step.visible_end(r))
        codes.append(r * _ROW_STRIDE + columns[known])
        tokens.append(ids[known])
        masked.append(is_masked[known])
    known_codes = np.concatenate(codes)
    return Neighbourhood(
        known_codes,
        np.concatenate(tokens),
        np.flatnonzero(np.concatenate(masked)),
        np.searchsorted(known_codes, opened),
    )
