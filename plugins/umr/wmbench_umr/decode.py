"""Marking: the native policy chooses positions and tokens; then tokens beside filled cells are chosen again.

Positions and confidences never see the mark. A cell with a filled neighbour (a stable context) takes the best token
after modulation; a cell without one keeps its own token and may regret it later (`regret.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from wmbench import hookimpl
from wmbench.runtime.row import Row
from wmbench.runtime.step import Cells, Step
from wmbench.types import Commit, IntArray, Sample, SchemeContext
from wmbench_umr.bitmap import Bitmap
from wmbench_umr.config import UmrConfig
from wmbench_umr.detect import Flags, UmrDetector
from wmbench_umr.modulation import best_scores, modulated
from wmbench_umr.regret import Regret, judge


class Umr(UmrDetector):
    """The scheme: decoding here, detection inherited."""

    def __init__(self, config: UmrConfig, context: SchemeContext) -> None:
        super().__init__(config, context)
        self._special = np.array(sorted(context.codec.special_ids), dtype=np.int64)

    @cached_property
    def _bitmap(self) -> Bitmap:
        return self.bitmap(self._key)

    @hookimpl
    def begin(self, sample: Sample) -> Regret:
        return Regret()

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        bitmap = self._bitmap  # raises before anything is decoded when there is no key
        native = step.propose([int(row.state.due) for row in step.rows])  # one more where a candidate is masked again
        order = np.lexsort((native.columns, native.rows))
        cells, drawn = Cells(native.rows[order], native.columns[order]), native.tokens[order]
        tokens, controlled = self._controlled(step, cells, drawn, bitmap)
        may_regret = self.config.regret and step.decoding.max_visits > 1
        back = self._regret(step, cells, tokens, controlled, bitmap) if may_regret else ([], [])
        return Commit(cells.rows, cells.columns, tokens, *(np.array(part, dtype=np.int64) for part in back))

    # --- tokens ------------------------------------------------------------------------------------------------

    def _controlled(self, step: Step, cells: Cells, drawn: IntArray, bitmap: Bitmap) -> tuple[IntArray, Flags]:
        """Tokens after modulation, and which cells had a filled neighbour to be controlled by.

        A special token that the model itself chose stays, and no special token replaces another one: the text does
        not show them. Neighbouring cells are filled from left to right, so that each sees its left one.
        """
        candidates, p = self._best_scores(step, cells, drawn)
        p = np.where(np.isin(candidates, self._special), 0.0, p)
        tokens, controlled = drawn.copy(), np.zeros(len(cells), dtype=bool)
        canvases = [row.canvas.copy() for row in step.rows]
        filled = [_filled(row) for row in step.rows]
        place = _places_in_runs(cells)
        for now in (np.flatnonzero(place == at) for at in range(int(place.max()) + 1)):
            weights, choice = p[now], candidates[now]
            for side in (-1, 1) if self.config.strategy == "bidirectional" else (-1,):
                known, neighbour = _neighbours(cells, now, side, canvases, filled)
                beside, at_cell = neighbour[known, None], choice[known]
                green = bitmap.hits(beside, at_cell) if side < 0 else bitmap.hits(at_cell, beside)
                weights[known] = modulated(weights[known], green, self.config.delta)
                controlled[now] |= known
            replaced = controlled[now] & ~np.isin(drawn[now], self._special)
            tokens[now[replaced]] = choice[replaced, weights[replaced].argmax(axis=1)]
            for i in now:
                canvases[cells.rows[i]][cells.columns[i]] = tokens[i]
                filled[cells.rows[i]][cells.columns[i]] = True
        return tokens, controlled

    def _best_scores(self, step: Step, cells: Cells, drawn: IntArray) -> tuple[IntArray, np.ndarray]:
        """The best tokens [n, candidates] of every cell under the noise that made the native policy draw its token."""
        logits = _base_logits(step, cells)[:, : self._size]  # ids beyond the tokenizer are banned
        width = logits.shape[1] + 1 if step.decoding.temperature > 0 else 0
        noise = [
            step.rows[r].uniforms("umr noise", width, lane=column)
            for r, column in zip(cells.rows.tolist(), cells.columns.tolist(), strict=True)
        ]
        u = torch.from_numpy(np.stack(noise)).to(logits.device)
        winners = torch.from_numpy(drawn).to(logits.device)
        candidates, p = best_scores(logits, winners, u, step.decoding, self.config.candidates)
        return candidates.cpu().numpy(), p.cpu().numpy()

    # --- regret ------------------------------------------------------------------------------------------------

    def _regret(
        self, step: Step, cells: Cells, tokens: IntArray, controlled: Flags, bitmap: Bitmap
    ) -> tuple[list[int], list[int]]:
        """Update every row's state; rows and columns to be masked again."""
        mine = [np.flatnonzero(cells.rows == r) for r in range(len(step.rows))]
        canvases = [row.edited(cells.columns[i], tokens[i]) for row, i in zip(step.rows, mine, strict=True)]
        masked = [np.setdiff1d(row.masked, cells.columns[i]) for row, i in zip(step.rows, mine, strict=True)]
        watched = [
            sorted({*row.state.cw_map, *cells.columns[i].tolist()}) for row, i in zip(step.rows, mine, strict=True)
        ]
        standing = judge(canvases, masked, watched, bitmap, self._special)
        back: tuple[list[int], list[int]] = ([], [])
        for r, (row, i) in enumerate(zip(step.rows, mine, strict=True)):
            committed = cells.columns[i]
            free = ~controlled[i] & ~np.isin(tokens[i], self._special)
            block_is_full = not np.isin(step.plans[r].scope, masked[r]).any()
            row.state, column = row.state.after(standing[r], committed[free].tolist(), committed, block_is_full)
            if column is not None:
                back[0].append(r)
                back[1].append(column)
        return back


def _base_logits(step: Step, cells: Cells) -> Tensor:
    """Logits at cells that the native policy has filled, hence read: nothing is computed again."""
    place = {cell: i for i, cell in enumerate(zip(step.open.rows.tolist(), step.open.columns.tolist(), strict=True))}
    return step.logits()[[place[cell] for cell in zip(cells.rows.tolist(), cells.columns.tolist(), strict=True)]]


def _filled(row: Row) -> Flags:
    flags = np.ones(row.length, dtype=bool)
    flags[row.masked] = False
    return flags


def _places_in_runs(cells: Cells) -> IntArray:
    """The place of each cell in its run of neighbouring cells; cells are sorted by row and column."""
    places = np.zeros(len(cells), dtype=np.int64)
    follows = (np.diff(cells.columns) == 1) & (np.diff(cells.rows) == 0)
    for i in np.flatnonzero(follows) + 1:
        places[i] = places[i - 1] + 1
    return places


def _neighbours(
    cells: Cells, now: IntArray, offset: int, canvases: Sequence[IntArray], filled: Sequence[Flags]
) -> tuple[Flags, IntArray]:
    """Whether the neighbour of each cell exists and is filled, and its token."""
    known, tokens = np.zeros(len(now), dtype=bool), np.zeros(len(now), dtype=np.int64)
    for k, i in enumerate(now.tolist()):
        r, column = cells.rows[i], cells.columns[i] + offset
        if 0 <= column < len(canvases[r]) and filled[r][column]:
            known[k], tokens[k] = True, canvases[r][column]
    return known, tokens
