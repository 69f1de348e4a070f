"""A scheme's decision is applied only if it is sound: nonsense is an error, never a silent no-op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from wmbench.errors import PluginError
from wmbench.types import Commit, IntArray

if TYPE_CHECKING:
    from wmbench.runtime.engine import Engine
    from wmbench.runtime.lookahead import Edit
    from wmbench.runtime.row import Row
    from wmbench.runtime.step import Step


def refuse(author: str, what: str, why: str) -> PluginError:
    return PluginError(f"{author} {what}", where="hook decode_step", why=why)


def check_commit(commit: Commit, step: Step, moving: Sequence[int] | None = None) -> None:
    """Cells must exist, be masked and filled once, with a permitted token; every row (or `moving`) must move."""
    rows, allowed = step.rows, step.engine.allowed

    def unsound(why: str) -> PluginError:
        return refuse(step.author, "returned an unsound commit", why)

    if not isinstance(commit, Commit):
        raise unsound(f"expected a wmbench.types.Commit, got {type(commit).__name__}")
    if not len(commit.rows) == len(commit.columns) == len(commit.tokens):
        raise unsound("rows, columns and tokens differ in length")
    if len(commit.remask_rows) != len(commit.remask_columns):
        raise unsound("remask_rows and remask_columns differ in length")
    for index in (commit.rows, commit.remask_rows):
        if _outside(index, len(rows)):
            raise unsound(f"row index outside 0..{len(rows) - 1}")
    if _outside(commit.tokens, len(allowed)):
        raise unsound("token id outside the vocabulary")
    if not allowed[commit.tokens].all():
        raise unsound(f"banned token id {int(commit.tokens[~allowed[commit.tokens]][0])}")
    for r, row in enumerate(rows):
        columns = commit.columns[commit.rows == r]
        back = commit.remask_columns[commit.remask_rows == r]
        if not len(columns) and not len(back) and (moving is None or r in moving):
            raise unsound(f"nothing was decided for row {r} (sample {row.sample.id})")
        if len(set(columns.tolist())) < len(columns) or not _are_masked(columns, row):
            raise unsound(f"row {r}: a column is filled twice or was not masked")
        if not len(back):
            continue
        committed = np.setdiff1d(np.arange(row.start, row.length), row.masked)
        if not np.isin(back, np.union1d(committed, columns)).all():
            raise unsound(f"row {r}: only committed generated columns can be re-masked")
        fills = row.visits[back] + np.isin(back, columns)
        if fills.max() >= step.decoding.max_visits:
            raise unsound(f"row {r}: a column was re-masked {step.decoding.max_visits} times (max_visits)")


def check_logits(logits: object, shape: tuple[int, int], author: str) -> None:
    """Logits to sample from: one row per open cell over the whole vocabulary, each with something to sample."""
    if not isinstance(logits, torch.Tensor) or not logits.is_floating_point():
        given = logits.dtype if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise refuse(author, "gave no logits to commit", f"expected a torch tensor of floats, got {given}")
    if tuple(logits.shape) != shape:
        raise refuse(author, "gave the wrong number of logits to commit", f"{tuple(logits.shape)} instead of {shape}")
    best = logits.amax(-1)  # NaN if any entry is NaN
    if not best.isfinite().all():
        raise refuse(author, "gave unusable logits to commit", "a row is NaN, or everywhere minus or plus infinity")


def check_edit(edit: Edit, rows: Sequence[Row], engine: Engine, author: str) -> None:
    """A hypothetical commit touches generated columns of an existing row, with ids of the vocabulary."""
    if not 0 <= edit.row < len(rows):
        raise refuse(author, "looked ahead at an unknown row", f"row {edit.row} of {len(rows)}")
    row = rows[edit.row]
    if len(edit.columns) != len(edit.tokens):
        raise refuse(author, "looked ahead at a malformed edit", "columns and tokens differ in length")
    if _outside(edit.columns - row.start, row.length - row.start):
        raise refuse(author, "looked ahead outside the answer", f"columns run from {row.start} to {row.length - 1}")
    if _outside(edit.tokens, len(engine.allowed)):
        raise refuse(author, "looked ahead at an unknown token", "token id outside the vocabulary")


def check_windows(edits: Sequence[Edit], windows: Sequence[tuple[int, int]], rows: Sequence[Row], author: str) -> None:
    """One window per edit, inside of the canvas, with all of the edit's columns inside."""
    if len(windows) != len(edits):
        raise refuse(author, "looked ahead without a window for every edit", f"{len(windows)} for {len(edits)}")
    for edit, (begin, end) in zip(edits, windows, strict=True):
        length = rows[edit.row].length
        if begin < 0 or end > length:
            why = f"columns run from 0 to {length - 1}, the window from {begin} to {end - 1}"
            raise refuse(author, "looked ahead in a window that leaves the canvas", why)
        if _outside(edit.columns - begin, end - begin):
            raise refuse(author, "edited a column outside of its window", f"columns run from {begin} to {end - 1}")


def _are_masked(columns: IntArray, row: Row) -> bool:
    inside = not _outside(columns - row.start, row.length - row.start)
    return inside and bool((row.canvas[columns] == row.mask_id).all())


def _outside(values: IntArray, count: int) -> bool:
    return bool(len(values)) and not (values.min() >= 0 and values.max() < count)
