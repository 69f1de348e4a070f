"""What-if forwards: many hypothetical commits evaluated in one batched, de-duplicated, memory-bounded pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wmbench.runtime.backbone import Prefix
from wmbench.runtime.engine import Engine
from wmbench.runtime.row import Row
from wmbench.runtime.sampling import draw_tokens
from wmbench.runtime.views import HiddenView, Request
from wmbench.types import IntArray

Window = tuple[int, int]
"""First column and end."""
Spans = Mapping[int, Window]


@dataclass(frozen=True, slots=True)
class Edit:
    """A hypothetical commit: these tokens at these columns of one row, on top of its present canvas."""

    row: int
    columns: IntArray
    tokens: IntArray


class Lookahead:
    """Handle on hypothetical canvases. Nothing is computed until asked for, so an edit nobody asks about is free.

    Equal canvases share one forward; each edit still gets its own draws. States are kept by canvas content: if a
    canvas is committed, its forward is the next step's base forward.

    With `windows` it is approximate: of each edit only these columns are computed, while all others keep the keys and
    values of the base forward. Such states are never kept.
    """

    def __init__(
        self,
        engine: Engine,
        rows: Sequence[Row],
        edits: Sequence[Edit],
        spans: Spans,
        windows: Sequence[Window] | None = None,
    ) -> None:
        self._engine = engine
        self._windows = windows
        self._spans = spans  # of each row's open scope: what the next step will need if an edit is committed
        self._edits = edits
        self._rows = [rows[edit.row] for edit in edits]
        self._row_index = [edit.row for edit in edits]
        self._canvases = [row.edited(edit.columns, edit.tokens) for row, edit in zip(self._rows, edits, strict=True)]
        self._contents = [canvas.tobytes() for canvas in self._canvases]

    def __len__(self) -> int:
        return len(self._canvases)

    @property
    def representatives(self) -> IntArray:
        """For every edit the index of the first edit that leads to the same canvas of the same row."""
        first: dict[tuple[int, bytes], int] = {}
        pairs = zip(self._row_index, self._contents, strict=True)
        return np.array([first.setdefault(pair, i) for i, pair in enumerate(pairs)], dtype=np.int64)

    def logits(self, columns: Sequence[IntArray]) -> Iterator[tuple[int, Tensor]]:
        """(edit index, logits [len(columns[i]), V]) for every edit with columns, chunk by chunk under the memory bound.

        Equal canvases asked for equal columns share their logits.
        """
        for sharers, logits in self._shared_logits(columns):
            parts = torch.split(logits, [len(columns[edits[0]]) for edits in sharers])
            for edits, part in zip(sharers, parts, strict=True):
                yield from ((i, part) for i in edits)

    def sample(
        self,
        columns: Sequence[IntArray],
        uniforms: Sequence[npt.NDArray[np.float64]],
        temperature: float,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> list[IntArray]:
        """Tokens [len(columns[i]), R_i] for every edit from its uniforms [len(columns[i]), R_i].

        Draws that share a distribution share its cumulative sum.
        """
        drawn: list[IntArray] = [np.empty(u.shape, dtype=np.int64) for u in uniforms]
        for sharers, logits in self._shared_logits(columns):
            # Side by side: the uniforms of all edits that share a distribution, padded to the widest.
            joined = [np.concatenate([uniforms[i] for i in edits], axis=1) for edits in sharers]
            padded = np.concatenate(_equally_wide(joined))
            u = torch.from_numpy(padded).to(logits.device)
            tokens = draw_tokens(logits, u, temperature, top_k, top_p).cpu().numpy()
            top = 0
            for edits, own in zip(sharers, joined, strict=True):
                left = 0
                for i in edits:
                    width = uniforms[i].shape[1]
                    drawn[i][:] = tokens[top : top + len(own), left : left + width]
                    left += width
                top += len(own)
        return drawn

    def _shared_logits(self, columns: Sequence[IntArray]) -> Iterator[tuple[list[list[int]], Tensor]]:
        """Chunks of (lists of edits that share their logits, those logits stacked)."""
        asked: dict[tuple[int, bytes, bytes], list[int]] = {}
        for i, wanted in enumerate(columns):
            if len(wanted):
                asked.setdefault((self._row_index[i], self._contents[i], wanted.tobytes()), []).append(i)
        shared = list(asked.values())
        leaders = [edits[0] for edits in shared]
        if not leaders:
            return
        views = self._views(leaders, [columns[i] for i in leaders])
        for chunk in self._chunks([columns[i] for i in leaders]):
            states = torch.cat([views[c].at(columns[leaders[c]]) for c in chunk])
            owners = [(self._rows[leaders[c]], len(columns[leaders[c]])) for c in chunk]
            yield [shared[c] for c in chunk], self._engine.logits(states, owners)

    def _chunks(self, columns: Sequence[IntArray]) -> Iterator[list[int]]:
        """Split the work so that the logits of one chunk fit the memory bound."""
        chunk: list[int] = []
        size = 0
        for i, wanted in enumerate(columns):
            if chunk and size + len(wanted) > self._engine.logit_rows:
                yield chunk
                chunk, size = [], 0
            chunk.append(i)
            size += len(wanted)
        if chunk:
            yield chunk

    def _approximate_views(self, edits: Sequence[int], windows: Sequence[Window]) -> list[HiddenView]:
        """States of the edits' windows, seen from the surroundings of the base forward."""
        engine, shift = self._engine, self._engine.backbone.logit_shift
        rows = {self._row_index[i]: self._rows[i] for i in edits}
        surroundings = dict(zip(rows, engine.surroundings(list(rows.values())), strict=True))
        around: dict[tuple[int, Window], Prefix] = {}
        requests = []
        for i in edits:
            r, end = self._row_index[i], windows[i][1]
            begin = max(0, windows[i][0] - shift)
            if (r, windows[i]) not in around:
                around[r, windows[i]] = surroundings[r].without(begin, end)
            requests.append(Request(self._rows[i], self._canvases[i], begin, end, around=around[r, windows[i]]))
        return engine.forward(requests)

    def _views(self, edits: Sequence[int], columns: Sequence[IntArray]) -> list[HiddenView]:
        """States of the edited canvases; each distinct one is forwarded once and then kept by its row."""
        if self._windows is not None:
            return self._approximate_views(edits, self._windows)
        requests: dict[tuple[int, bytes], Request] = {}
        for i, wanted in zip(edits, columns, strict=True):
            row, content = self._rows[i], self._contents[i]
            begin, end = self._engine.span(row, wanted)
            scope_begin, scope_end = self._spans[self._row_index[i]]
            begin = min(begin, scope_begin, int(self._edits[i].columns.min(initial=begin)))
            end = max(end, scope_end)
            kept, place = row.kept.get(content), (self._row_index[i], content)
            if kept is None or kept.start > begin or kept.end < end:
                if (same := requests.get(place)) is not None:  # this canvas, asked for other columns
                    begin, end = min(begin, same.begin), max(end, same.end)
                requests[place] = Request(row, self._canvases[i], begin, end)
        for ((_, content), request), view in zip(
            requests.items(), self._engine.forward(list(requests.values())), strict=True
        ):
            request.row.kept[content] = view
        return [self._rows[i].kept[self._contents[i]] for i in edits]


def _equally_wide(uniforms: Sequence[npt.NDArray[np.float64]]) -> list[npt.NDArray[np.float64]]:
    widest = max(u.shape[1] for u in uniforms)
    return [u if u.shape[1] == widest else np.pad(u, ((0, 0), (0, widest - u.shape[1]))) for u in uniforms]
