"""Regret: tokens that miss get a second chance once their neighbours are known.

A candidate is valid when it waits for no neighbour and misses with at least one of them. A row with a valid candidate
fills one position more than its budget, and then masks one candidate again, so that no step is added; only when the
block has no further position is the candidate filled in one extra iteration of the block. A position is masked again at
most once per sample, so decoding terminates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from wmbench.types import IntArray
from wmbench_umr.bitmap import Bitmap, Flags


@dataclass(frozen=True, slots=True)
class Candidate:
    """How a filled column stands with its neighbours (`flag` and `pn` of the published loop)."""

    waiting: bool
    """A neighbour is still masked."""
    misses: int
    """Pairs with filled neighbours that are not hits (0, 1 or 2)."""

    @property
    def valid(self) -> bool:
        return not self.waiting and self.misses > 0


@dataclass(frozen=True, slots=True)
class Regret:
    """State of one sample. Immutable, so that forks of a row may share it."""

    cw_map: Mapping[int, Candidate] = field(default_factory=dict)
    """Candidates of the current block by column."""
    cw_history: frozenset[int] = frozenset()
    """Columns that had their second chance; they live as long as the sample."""
    closing: bool = False
    """The block is in its extra iteration: nothing is masked again."""
    roll_back_times: int = 0
    """Positions masked again so far."""
    re_green_count: int = 0
    """Positions among them that hit afterwards."""

    @property
    def due(self) -> bool:
        """One more position is filled in this step, and one candidate masked again after it."""
        return not self.closing and any(candidate.valid for candidate in self.cw_map.values())

    def after(
        self, standing: Mapping[int, Candidate], unstable: Sequence[int], committed: IntArray, block_is_full: bool
    ) -> tuple[Regret, int | None]:
        """The state after a commit, and the column to mask again.

        `standing` holds the candidates and the columns just committed, judged on the new canvas; `unstable` are the
        committed ones that no filled neighbour could control.
        """
        second_try = [c for c in committed.tolist() if c in self.cw_history]
        kept = {c: standing[c] for c in self.cw_map if standing[c].waiting or standing[c].misses}
        new = {
            c: standing[c]
            for c in committed.tolist()
            if c not in self.cw_history and (standing[c].misses or c in unstable)
        }
        # Only candidates that were queued before this step may use its extra slot.
        queue = sorted((c for c in kept if kept[c].valid), key=lambda c: (-kept[c].misses, c)) if self.due else []
        column = queue[0] if queue else None
        counted = replace(self, re_green_count=self.re_green_count + sum(standing[c].misses == 0 for c in second_try))
        if column is None and block_is_full:
            return replace(counted, cw_map={}, closing=False), None  # the next block begins without candidates
        if column is None:
            return replace(counted, cw_map=kept | new), None
        left = {
            c: replace(candidate, waiting=candidate.waiting or abs(c - column) == 1)  # its neighbours wait for it
            for c, candidate in (kept | new).items()
            if c != column
        }
        return (
            replace(
                counted,
                cw_map=left,
                cw_history=self.cw_history | {column},
                closing=block_is_full,
                roll_back_times=self.roll_back_times + 1,
            ),
            column,
        )


def judge(
    canvases: Sequence[IntArray],
    filled: Sequence[Flags],
    columns: Sequence[Sequence[int]],
    bitmap: Bitmap,
    mute: Flags,
) -> list[dict[int, Candidate]]:
    """The standing of some filled columns of every canvas; `filled` says which columns are, `mute` which ids are
    special, so that their pairs are not in the text.

    One bitmap query for all rows: a query costs the same for one pair as for a hundred.
    """
    pairs = [  # (row, judged column, left column of the pair)
        (r, c, left)
        for r, wanted in enumerate(columns)
        for c in wanted
        for left in (c - 1, c)
        if 0 <= left < len(canvases[r]) - 1
    ]
    complete = [(r, c, left) for r, c, left in pairs if filled[r][left] and filled[r][left + 1]]
    ids = np.array([canvases[r][left : left + 2] for r, _, left in complete], dtype=np.int64).reshape(-1, 2)
    missed = ~bitmap.hits(ids[:, 0], ids[:, 1]) & ~mute[ids].any(axis=1)
    misses: dict[tuple[int, int], int] = {}
    for (r, c, _), miss in zip(complete, missed, strict=True):
        misses[r, c] = misses.get((r, c), 0) + bool(miss)
    waiting = {(r, c) for r, c, _ in set(pairs) - set(complete)}
    return [
        {c: Candidate((r, c) in waiting, misses.get((r, c), 0)) for c in wanted} for r, wanted in enumerate(columns)
    ]
