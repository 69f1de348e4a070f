"""What `decode_step` receives: the open positions, base logits, and the five verbs of every published scheme.

bias       step.logits() -> change them -> step.commit(sampling_logits)
look ahead step.lookahead(edits).sample(...) or .logits(...)
fork       step.fork(rows, n, until)
replace    step.propose() -> change its tokens; step.propose(extra) fills more cells than the budget
re-mask    Commit(..., remask_rows, remask_columns)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wmbench.runtime.engine import Engine
from wmbench.runtime.lookahead import Edit, Lookahead, Window
from wmbench.runtime.positions import choose_blindly, confidences, most_confident, open_columns, widened
from wmbench.runtime.row import Row
from wmbench.runtime.sampling import draw_tokens
from wmbench.runtime.schedule import Schedule, make_schedule
from wmbench.runtime.settings import Decoding
from wmbench.runtime.soundness import check_commit, check_edit, check_logits, check_windows, refuse
from wmbench.runtime.views import HiddenView
from wmbench.types import Commit, IntArray

Decide = Callable[["Step"], Commit]


@dataclass(frozen=True, slots=True)
class Cells:
    """A flat, ragged list of canvas cells, row by row."""

    rows: IntArray
    columns: IntArray

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def ragged(cls, columns: Sequence[IntArray]) -> Cells:
        """From one array of columns per row."""
        rows = np.repeat(np.arange(len(columns)), [len(c) for c in columns])
        return cls(rows, np.concatenate([np.empty(0, dtype=np.int64), *columns]).astype(np.int64))


@dataclass(frozen=True, slots=True)
class Continuation:
    """One continuation of a fork."""

    canvas: IntArray
    columns: IntArray
    """Columns that were filled."""

    @property
    def tokens(self) -> IntArray:
        return self.canvas[self.columns]


def write(commit: Commit, r: int, row: Row, engine: Engine) -> None:
    """Write what a commit decides for row r to its canvas; its step is over."""
    mine = commit.rows == r
    row.fill(commit.columns[mine], commit.tokens[mine])
    back = commit.remask_columns[commit.remask_rows == r]
    if len(back):
        row.give_back(back)
        engine.forget_changed(row)
    row.keep_only_current()
    row.step += 1


class Step:
    """One denoising step of a batch of rows. Nothing is written: the returned `Commit` is applied by the loop."""

    def __init__(
        self,
        rows: Sequence[Row],
        engine: Engine,
        schedule: Schedule,
        decoding: Decoding,
        advance: Callable[..., None],
        author: str = "the decision",
    ) -> None:
        self.rows = rows
        self._clocks = [dict(row.ticks) for row in rows]  # before the plans, which advance them
        self.plans = [schedule.plan(row) for row in rows]
        self.engine = engine
        self.schedule = schedule
        self.decoding = decoding
        self.author = author
        """Who decides this step, for error messages; the host fills in the plugin."""
        self._advance = advance
        self._views: dict[int, HiddenView] = {}
        self._open_logits: Tensor | None = None
        self.open = self._open_cells()
        """The cells that compete now. Policies that do not read logits have already chosen among the scope."""

    # --- bias --------------------------------------------------------------------------------------------------

    def logits(self, cells: Cells | None = None) -> Tensor:
        """Base logits [n, V] (float32, banned ids at minus infinity) at the open cells, or at the cells asked for.

        Those of the open cells are kept for the whole step: add to them, but not in place.
        """
        if cells is not None:
            return self._logits_at(cells)
        if self._open_logits is None:
            self._open_logits = self._logits_at(self.open)
        return self._open_logits

    @property
    def known_logits(self) -> Tensor | None:
        """The open cells' logits if somebody has asked for them (observers look here; it costs nothing)."""
        return self._open_logits

    def commit(self, sampling_logits: Tensor | None = None, confidence_logits: Tensor | None = None) -> Commit:
        """Apply the token and the position policy to logits of the open cells (base logits by default).

        `confidence_logits` rank the positions; they default to the sampling logits.
        """
        cells, decoding = self.open, self.decoding
        logits = self.logits() if sampling_logits is None else sampling_logits
        shape = (len(cells), self.engine.backbone.vocab_size)
        check_logits(logits, shape, self.author)
        u = torch.from_numpy(self.cell_uniforms("token", cells)).to(logits.device)
        tokens = draw_tokens(logits, u, decoding.temperature, decoding.top_k, decoding.top_p)
        if choose_blindly(decoding):
            return Commit(cells.rows, cells.columns, tokens.cpu().numpy())
        if confidence_logits is not None:
            check_logits(confidence_logits, shape, self.author)
        ranking = confidences(logits if confidence_logits is None else confidence_logits, tokens, decoding)
        token_ids = tokens.cpu().numpy()
        if decoding.eos_last:
            ranking[np.isin(token_ids, list(self.engine.backbone.eos_ids))] = -np.inf
        chosen = []
        for r, (row, plan) in enumerate(zip(self.rows, self.plans, strict=True)):
            mine = np.flatnonzero(cells.rows == r)
            chosen.append(mine[most_confident(row, plan, cells.columns[mine], ranking[mine], decoding)])
        filled = np.concatenate(chosen)
        return Commit(cells.rows[filled], cells.columns[filled], token_ids[filled])

    def visible_end(self, r: int) -> int:
        """One past the last column of row r that this step's forward reaches; columns behind it have no logits yet
        without a longer forward (block-causal models)."""
        return self._scope_span(r)[1]

    def cell_uniforms(self, purpose: str, cells: Cells) -> npt.NDArray[np.float64]:
        """One uniform per cell [n], the same whatever else is asked for."""
        uniforms = np.empty(len(cells))
        for r, row in enumerate(self.rows):
            mine = cells.rows == r
            uniforms[mine] = row.column_uniforms(purpose)[cells.columns[mine] - row.start]
        return uniforms

    def propose(self, extra: Sequence[int] | None = None) -> Commit:
        """The native positions and tokens of this step, for schemes that replace tokens or take over positions.

        `extra` says, row by row, how many cells of the scope are filled beyond the native ones, by the same policy; the
        cells that were native without it stay so. They are part of `step.open` from then on.
        """
        if extra is not None and (len(extra) != len(self.rows) or min(extra) < 0):
            why = f"{list(extra)} for {len(self.rows)} rows; a number for every row, 0 or more"
            raise refuse(self.author, "proposed an impossible number of extra cells", why)
        if extra is not None and any(extra):
            self.plans = [widened(row, plan, n) for row, plan, n in zip(self.rows, self.plans, extra, strict=True)]
            self.open = self._open_cells()
            self._open_logits = None
        return self.commit()

    # --- look ahead --------------------------------------------------------------------------------------------

    def lookahead(self, edits: Sequence[Edit], windows: Sequence[Window] | None = None) -> Lookahead:
        """Evaluate hypothetical commits; approximately when `windows` has a stretch of columns for every edit, outside
        of which keys and values of the base forward are used (full attention only). See `Lookahead`."""
        for edit in edits:
            check_edit(edit, self.rows, self.engine, self.author)
        if windows is not None:
            check_windows(edits, windows, self.rows, self.author)
        spans = {r: self._scope_span(r) for r in sorted({edit.row for edit in edits})}
        self._base_views(spans)  # brings a row's prefix cache up to date before its candidates continue it
        return Lookahead(self.engine, self.rows, edits, spans, windows)

    # --- fork --------------------------------------------------------------------------------------------------

    def fork(
        self,
        rows: Sequence[int],
        n: int,
        until: Sequence[int],
        *,
        first_lane: int = 0,
        first: Commit | None = None,
        decide: Decide | None = None,
        decoding: Decoding | None = None,
    ) -> list[list[Continuation]]:
        """n continuations of each row until no mask is left before column `until`.

        Continuation i has randomness of its own (lane first_lane + i). They follow the base policy, or `decide`;
        `decoding` may change the temperature or the schedule, whose clock then starts anew. `first` is what they all
        commit in the present step, as if the scheme had returned it; two forks with different first commits and equal
        lanes are paired, draw by draw. Forwards are counted on the row that forked.
        """
        if len(rows) != len(until):
            raise refuse(self.author, "forked without a limit for every row", f"{len(rows)} rows, {len(until)} limits")
        schedule = self.schedule if decoding is None else make_schedule(decoding)
        parents = [self.rows[r] for r in rows]
        if schedule == self.schedule:
            spans = {r: self._scope_span(r) for r in rows}
        else:
            open_now = {r: p.masked[p.masked < limit] for r, p, limit in zip(rows, parents, until, strict=True)}
            spans = {r: self.engine.span(self.rows[r], columns) for r, columns in open_now.items() if len(columns)}
        self._base_views(spans)  # all continuations begin with this one forward
        children = [parent.child(first_lane + lane) for parent in parents for lane in range(n)]
        for i, child in enumerate(children):
            if schedule != self.schedule:
                child.ticks = {}
            elif first is None:  # it decides the present step itself, so it plans it anew
                child.ticks = dict(self._clocks[rows[i // n]])
        limits = [limit for limit in until for _ in range(n)]
        before = [child.masked for child in children]
        if first is not None:
            check_commit(first, self, rows)
            for i, child in enumerate(children):
                write(first, rows[i // n], child, self.engine)

        def unfinished() -> list[Row]:
            pairs = zip(children, limits, strict=True)
            return [child for child, limit in pairs if len(child.masked) and child.masked[0] < limit]

        while active := unfinished():
            self._advance(active, self.engine, schedule, decoding or self.decoding, decide or Step.commit, self.author)
        for i, child in enumerate(children):
            parent = parents[i // n]
            parent.forward_rows += child.forward_rows
            parent.forward_tokens += child.forward_tokens
            parent.head_rows += child.head_rows
        continuations = [
            Continuation(child.canvas, np.setdiff1d(was, child.masked))
            for child, was in zip(children, before, strict=True)
        ]
        return [continuations[i * n : (i + 1) * n] for i in range(len(parents))]

    # --- inside ------------------------------------------------------------------------------------------------

    def _open_cells(self) -> Cells:
        pairs = zip(self.rows, self.plans, strict=True)
        return Cells.ragged([open_columns(row, plan, self.decoding) for row, plan in pairs])

    def _scope_span(self, r: int) -> tuple[int, int]:
        return self.engine.span(self.rows[r], self.plans[r].scope)

    def _base_views(self, spans: dict[int, tuple[int, int]]) -> None:
        """Make sure that `self._views` covers these spans; only rows that are asked for are forwarded."""
        missing = {
            r: span
            for r, span in spans.items()
            if r not in self._views or self._views[r].start > span[0] or self._views[r].end < span[1]
        }
        views = self.engine.base_views([self.rows[r] for r in missing], list(missing.values()))
        self._views.update(zip(missing, views, strict=True))

    def _logits_at(self, cells: Cells) -> Tensor:
        if not len(cells):
            return torch.empty(0, self.engine.backbone.vocab_size, device=self.engine.backbone.device)
        columns = {r: cells.columns[cells.rows == r] for r in sorted(set(cells.rows.tolist()))}
        spans = {}
        for r, wanted in columns.items():
            (begin, end), (scope_begin, scope_end) = self.engine.span(self.rows[r], wanted), self._scope_span(r)
            spans[r] = min(begin, scope_begin), max(end, scope_end)
        self._base_views(spans)
        states = torch.cat([self._views[r].at(wanted) for r, wanted in columns.items()])
        logits = self.engine.logits(states, [(self.rows[r], len(wanted)) for r, wanted in columns.items()])
        if (cells.rows[1:] >= cells.rows[:-1]).all():  # states were gathered row by row
            return logits
        order = np.argsort(cells.rows, kind="stable")
        return logits[torch.from_numpy(np.argsort(order)).to(logits.device)]
