"""Regret: tokens that miss get a second chance once their neighbours are known.

A candidate is valid when it waits for no neighbour and misses with at least one of them. A row with a valid candidate
fills one position more than its budget, and then masks one candidate again, so that no step is added; only when the
block has no further position is the candidate filled in one extra iteration of the block. A position is masked again at
most once per sample, so decoding terminates.
"""

from __future__ import annotations

from collections import Counter
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


Known = dict[tuple[int, int], bool]
"""Whether (previous, current) pairs hit."""


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
    known: Known = field(default_factory=dict, compare=False, repr=False)
    """Pairs that were looked up for this sample. Only a memory: it grows, and forks may share it none the less."""

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
    known: Sequence[Known],
    bitmap: Bitmap,
    mute: Flags,
) -> list[dict[int, Candidate]]:
    """The standing of some filled columns of every canvas; `filled` says which columns are, `known` which pairs hit as
    far as that is known, `mute` which ids are special, so that their pairs are not in the text."""
    pairs = [  # (row, judged column, left column of the pair)
        (r, c, left)
        for r, wanted in enumerate(columns)
        for c in wanted
        for left in (c - 1, c)
        if 0 <= left < len(canvases[r]) - 1
    ]
    waiting, spoken = set(), []  # judged cells; (row, judged column, ids) of pairs that are in the text
    for r, c, left in pairs:
        if not (filled[r][left] and filled[r][left + 1]):
            waiting.add((r, c))
            continue
        ids = int(canvases[r][left]), int(canvases[r][left + 1])
        if not (mute[ids[0]] or mute[ids[1]]):
            spoken.append((r, c, ids))
    _look_up([(r, ids) for r, _, ids in spoken], known, bitmap)
    misses = Counter((r, c) for r, c, ids in spoken if not known[r][ids])
    return [{c: Candidate((r, c) in waiting, misses[r, c]) for c in wanted} for r, wanted in enumerate(columns)]


def _look_up(pairs: Sequence[tuple[int, tuple[int, int]]], known: Sequence[Known], bitmap: Bitmap) -> None:
    """Get to know pairs (row, ids). One bitmap query for all: a query costs the same for one pair as for a hundred."""
    missing = list(dict.fromkeys((r, ids) for r, ids in pairs if ids not in known[r]))
    if missing:
        previous, current = np.array([ids for _, ids in missing]).T
        for (r, ids), hit in zip(missing, bitmap.hits(previous, current).tolist(), strict=True):
            known[r][ids] = hit
