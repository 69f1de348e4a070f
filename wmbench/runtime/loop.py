"""The one denoising loop.

For every step: the schedule opens positions, the scheme's `decode_step` decides, the decision is checked and written.
Rows are ragged: each has its own clock, budget, caches and state; finished rows leave and new ones join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from wmbench.errors import ConfigError, PluginError
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.engine import Engine
from wmbench.runtime.randomness import SampleRandom
from wmbench.runtime.row import Row
from wmbench.runtime.schedule import Schedule, make_schedule
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Decide, Step
from wmbench.types import Commit, Generation, Sample

Begin = Callable[[Sample], Any]


def make_engine(backbone: Backbone, decoding: Decoding) -> Engine:
    return Engine(backbone, banned=sorted(backbone.eos_ids) if decoding.eos == "ban" else ())


def decode(
    samples: Iterable[Sample],
    engine: Engine,
    decoding: Decoding,
    decide: Decide = Step.commit,
    begin: Begin | None = None,
    *,
    seed: int = 0,
    batch_size: int = 8,
) -> Iterator[Generation]:
    """Answer every sample; generations come out as they finish. `decide` defaults to clean decoding."""
    waiting = iter(samples)
    schedule = make_schedule(decoding)
    rows: list[Row] = []
    while True:
        rows += [_new_row(s, engine, decoding, begin, seed) for s in islice(waiting, batch_size - len(rows))]
        if not rows:
            return
        advance(rows, engine, schedule, decoding, decide)
        finished = [row for row in rows if _is_finished(row, engine, decoding)]
        rows = [row for row in rows if row not in finished]
        yield from (_generation(row, engine, decoding) for row in finished)


def advance(rows: Sequence[Row], engine: Engine, schedule: Schedule, decoding: Decoding, decide: Decide) -> None:
    """One step of every row."""
    plans = [schedule.plan(row) for row in rows]
    step = Step(rows, plans, engine, schedule, decoding, advance)
    commit = decide(step)
    _check(commit, rows, engine, decoding)
    for r, row in enumerate(rows):
        mine = commit.rows == r
        row.fill(commit.columns[mine], commit.tokens[mine])
        back = commit.remask_columns[commit.remask_rows == r]
        if len(back):
            row.give_back(back)
            if row.prefix is not None:
                row.prefix = row.prefix.crop(min(row.prefix.length, engine.cacheable(row)))
                row.kept.clear()
        row.keep_only_current()
        row.step += 1


def _check(commit: Commit, rows: Sequence[Row], engine: Engine, decoding: Decoding) -> None:
    """A scheme's decision is applied only if it is sound; nonsense is an error, never a silent no-op."""

    def refuse(why: str) -> PluginError:
        return PluginError("decode_step returned an unsound commit", where="hook decode_step", why=why)

    if not isinstance(commit, Commit):
        raise refuse(f"expected a wmbench.types.Commit, got {type(commit).__name__}")
    if not len(commit.rows) == len(commit.columns) == len(commit.tokens):
        raise refuse("rows, columns and tokens differ in length")
    if len(commit.rows) and not (commit.rows.min() >= 0 and commit.rows.max() < len(rows)):
        raise refuse(f"row index outside 0..{len(rows) - 1}")
    if len(commit.tokens) and not (commit.tokens.min() >= 0 and commit.tokens.max() < len(engine.allowed)):
        raise refuse("token id outside the vocabulary")
    if not engine.allowed[commit.tokens].all():
        raise refuse(f"banned token id {int(commit.tokens[~engine.allowed[commit.tokens]][0])}")
    for r, row in enumerate(rows):
        columns = commit.columns[commit.rows == r]
        back = commit.remask_columns[commit.remask_rows == r]
        if not len(columns) and not len(back):
            raise refuse(f"nothing was decided for row {r} (sample {row.sample.id})")
        if len(np.unique(columns)) < len(columns) or not np.isin(columns, row.masked).all():
            raise refuse(f"row {r}: a column is filled twice or was not masked")
        committed = np.setdiff1d(np.arange(row.start, row.length), row.masked)
        if not np.isin(back, np.union1d(committed, columns)).all():
            raise refuse(f"row {r}: only committed generated columns can be re-masked")
        if len(back) and row.visits[back].max() >= decoding.max_visits:
            raise refuse(f"row {r}: a column was re-masked {decoding.max_visits} times (max_visits)")


def _new_row(sample: Sample, engine: Engine, decoding: Decoding, begin: Begin | None, seed: int) -> Row:
    backbone = engine.backbone
    prompt_ids = backbone.codec.encode_prompt(sample.prompt)
    total = len(prompt_ids) + decoding.max_new_tokens
    if not prompt_ids or total > backbone.max_length:
        raise ConfigError(
            f"sample {sample.id}: prompt and answer need {total} positions, {backbone.name} has {backbone.max_length}"
            if prompt_ids
            else f"sample {sample.id}: the prompt is empty",
            hint="shorten the prompt or lower max_new_tokens",
        )
    row = Row(sample, prompt_ids, decoding.max_new_tokens, backbone.mask_id, SampleRandom(seed, sample.id))
    row.state = begin(sample) if begin else None
    return row


def _first_eos(row: Row, engine: Engine) -> int | None:
    hits = np.flatnonzero(np.isin(row.generated, list(engine.backbone.eos_ids)))
    return row.start + int(hits[0]) if len(hits) else None


def _is_finished(row: Row, engine: Engine, decoding: Decoding) -> bool:
    masked = row.masked
    if decoding.eos == "stop" and (eos := _first_eos(row, engine)) is not None:
        return not len(masked) or int(masked[0]) > eos
    return not len(masked)


def _generation(row: Row, engine: Engine, decoding: Decoding) -> Generation:
    eos = _first_eos(row, engine) if decoding.eos == "stop" else None
    ids = row.canvas[row.start : row.length if eos is None else eos + 1].tolist()
    return Generation(row.sample, engine.backbone.codec.decode(ids), tuple(ids), row.cost)
