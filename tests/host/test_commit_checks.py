"""A decision that makes no sense is refused by the loop, never applied in part and never dropped in silence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from wmbench import hookimpl
from wmbench.errors import PluginError
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.step import Step
from wmbench.testing import run_scheme, toy_samples
from wmbench.types import Commit

NONSENSE: dict[str, Callable[[Step], object]] = {
    "not a commit": lambda step: [(0, 5, 7)],
    "nothing": lambda step: Commit.of(),
    "nothing for one row": lambda step: Commit.of([(0, int(step.rows[0].masked[0]), 7)]),
    "ragged arrays": lambda step: Commit(np.array([0, 1]), np.array([9]), np.array([7])),
    "row too large": lambda step: Commit.of([(99, 5, 7)]),
    "negative row": lambda step: Commit.of([(-1, 5, 7)]),
    "prompt column": lambda step: _everywhere(step, lambda row: 0, 7),
    "column behind the canvas": lambda step: _everywhere(step, lambda row: row.length, 7),
    "banned token": lambda step: _everywhere(step, lambda row: int(row.masked[0]), step.rows[0].mask_id),
    "token behind the vocabulary": lambda step: _everywhere(step, lambda row: int(row.masked[0]), 10_000),
    "negative token": lambda step: _everywhere(step, lambda row: int(row.masked[0]), -1),
    "one column twice": lambda step: Commit.of(
        [(r, int(row.masked[0]), t) for r, row in enumerate(step.rows) for t in (7, 8)]
    ),
    "re-masks a masked cell": lambda step: _remask(step, lambda row: [(0, int(row.masked[-1]))]),
    "re-masks the prompt": lambda step: _remask(step, lambda row: [(0, 0)]),
    "re-masks a row that is not there": lambda step: _remask(step, lambda row: [(99, int(row.masked[0]))]),
    "re-masks without columns": lambda step: _with(step, remask_rows=np.array([0])),
    "tokens are not integers": lambda step: _with(step, tokens=step.commit().tokens + 0.5),
    "lists instead of arrays": lambda step: _with(step, columns=step.commit().columns.tolist()),
}


def _everywhere(step: Step, column: Callable[..., int], token: int) -> Commit:
    return Commit.of([(r, column(row), token) for r, row in enumerate(step.rows)])


def _remask(step: Step, cells: Callable[..., list[tuple[int, int]]]) -> Commit:
    native = step.commit()
    filled = list(zip(native.rows.tolist(), native.columns.tolist(), native.tokens.tolist(), strict=True))
    return Commit.of(filled, cells(step.rows[0]))


def _with(step: Step, **changes: object) -> Commit:
    return replace(step.commit(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_is_refused(kind: str, tiny_full_backbone: Backbone) -> None:
    class Nonsense:
        @hookimpl
        def decode_step(self, step: Step) -> object:
            return NONSENSE[kind](step)

    with pytest.raises(PluginError, match="decode_step"):
        run_scheme(Nonsense(), tiny_full_backbone, toy_samples(3))


def test_endless_remasking_is_refused(tiny_full_backbone: Backbone) -> None:
    class Undecided:
        @hookimpl
        def decode_step(self, step: Step) -> Commit:
            native = step.commit()
            return replace(native, remask_rows=native.rows, remask_columns=native.columns)

    with pytest.raises(PluginError, match="max_visits"):
        run_scheme(Undecided(), tiny_full_backbone, toy_samples(2))
