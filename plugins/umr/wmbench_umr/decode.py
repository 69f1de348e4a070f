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
from wmbench_umr.regret import Known, Regret, judge


class Umr(UmrDetector):
    """The scheme: decoding here, detection inherited."""

    def __init__(self, config: UmrConfig, context: SchemeContext) -> None:
        super().__init__(config, context)
        special = list(context.codec.special_ids)
        self._special: Flags = np.isin(np.arange(max([self._size, *(i + 1 for i in special)])), special)
        """[ids] which of them the text does not show"""

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
        canvases, filled = [row.canvas.copy() for row in step.rows], [_filled(row) for row in step.rows]
        tokens, controlled = self._controlled(step, cells, drawn, bitmap, canvases, filled)
        may_regret = self.config.regret and step.decoding.max_visits > 1
        back = self._regret(step, cells, tokens, controlled, bitmap, canvases, filled) if may_regret else ([], [])
        return Commit(cells.rows, cells.columns, tokens, *(np.array(part, dtype=np.int64) for part in back))

    # --- tokens ------------------------------------------------------------------------------------------------

    def _controlled(
        self,
        step: Step,
        cells: Cells,
        drawn: IntArray,
        bitmap: Bitmap,
        canvases: Sequence[IntArray],
        filled: Sequence[Flags],
    ) -> tuple[IntArray, Flags]:
        """Tokens after modulation, and which cells had a filled neighbour to be controlled by.

        A special token that the model itself chose stays, and no special token replaces another one: the text does
        not show them. Neighbouring cells are filled from left to right, so that each sees its left one. The tokens
        are written to the canvases.
        """
        candidates, p = self._best_scores(step, cells, drawn)
        p = np.where(self._special[candidates], 0.0, p)
        tokens, controlled = drawn.copy(), np.zeros(len(cells), dtype=bool)
        place = _places_in_runs(cells)
        sides = (-1, 1) if self.config.strategy == "bidirectional" else (-1,)
        for now in (np.flatnonzero(place == at) for at in range(int(place.max()) + 1)):
            weights, choice = p[now], candidates[now]
            beside = [_neighbours(cells, now, side, canvases, filled) for side in sides]
            green = _green(choice, beside, bitmap)
            for (known, _), flags in zip(beside, green, strict=True):
                weights[known] = modulated(weights[known], flags, self.config.delta)
                controlled[now] |= known
            replaced = controlled[now] & ~self._special[drawn[now]]
            best = weights.argmax(axis=1)
            tokens[now[replaced]] = choice[replaced, best[replaced]]
            for side, (known, others), flags in zip(sides, beside, green, strict=True):
                for k, hits in zip(np.flatnonzero(known).tolist(), flags, strict=True):
                    if replaced[k]:
                        i, hit = now[k], bool(hits[best[k]])
                        _remember(step.rows[cells.rows[i]].state.known, side, int(others[k]), int(tokens[i]), hit)
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
        self,
        step: Step,
        cells: Cells,
        tokens: IntArray,
        controlled: Flags,
        bitmap: Bitmap,
        canvases: Sequence[IntArray],
        filled: Sequence[Flags],
    ) -> tuple[list[int], list[int]]:
        """Update every row's state; rows and columns to be masked again. The canvases are those after the commit."""
        mine = [np.flatnonzero(cells.rows == r) for r in range(len(step.rows))]
        watched = [
            sorted({*row.state.cw_map, *cells.columns[i].tolist()}) for row, i in zip(step.rows, mine, strict=True)
        ]
        known = [row.state.known for row in step.rows]
        standing = judge(canvases, filled, watched, known, bitmap, self._special)
        back: tuple[list[int], list[int]] = ([], [])
        for r, (row, i) in enumerate(zip(step.rows, mine, strict=True)):
            committed = cells.columns[i]
            free = ~controlled[i] & ~self._special[tokens[i]]
            block_is_full = bool(filled[r][step.plans[r].scope].all())
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


def _green(choice: IntArray, beside: Sequence[tuple[Flags, IntArray]], bitmap: Bitmap) -> list[Flags]:
    """Which tokens [known, candidates] hit with the left neighbours, then with the right ones where they count.

    One bitmap query for both: a query costs the same for one pair as for a hundred.
    """
    at_cell = [choice[known] for known, _ in beside]
    next_to = [np.repeat(tokens[known, None], choice.shape[1], axis=1) for known, tokens in beside]
    previous, current = np.concatenate([next_to[0], *at_cell[1:]]), np.concatenate([at_cell[0], *next_to[1:]])
    return np.split(bitmap.hits(previous, current), np.cumsum([len(part) for part in at_cell])[:-1])


def _remember(known: Known, side: int, neighbour: int, token: int, hit: bool) -> None:
    """Keep what modulation has looked up about a pair: regret asks for it again, and every query costs."""
    known[(neighbour, token) if side < 0 else (token, neighbour)] = hit
