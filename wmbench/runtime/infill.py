"""Texts with holes: what a backbone would put there, and filling them by the one denoising loop.

For attackers and measurements that start from a finished text instead of an empty canvas. Every forward goes through
the engine; on CPU in float32 a refilled canvas does not depend on the others, and the likeliest tokens only on those
of its call, whose common beginning is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch

from wmbench.errors import ConfigError
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.engine import Engine
from wmbench.runtime.loop import advance, make_engine
from wmbench.runtime.randomness import SampleRandom
from wmbench.runtime.row import Row
from wmbench.runtime.schedule import make_schedule
from wmbench.runtime.settings import Decoding, PositionPolicy
from wmbench.runtime.step import Step
from wmbench.types import IntArray, Sample

_ROWS_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Canvas:
    """A tokenised text behind a prompt, with holes."""

    id: str
    """With the seed it fixes all randomness."""
    prompt_ids: Sequence[int]
    ids: Sequence[int]
    holes: Sequence[int]
    """Places in `ids` that are masked, ascending; what `ids` holds there is not looked at."""


def likeliest_tokens(backbone: Backbone, canvases: Sequence[Canvas], count: int) -> list[IntArray]:
    """Of every canvas the `count` likeliest ids of each hole [holes, count], likeliest first: ids that may be filled
    in, EOS not among them. Fewer where there are no more."""
    engine = make_engine(backbone, Decoding(eos="ban"))
    count = min(count, int(engine.allowed.sum()))
    found: list[IntArray] = []
    for at in range(0, len(canvases), _ROWS_AT_ONCE):
        rows = [_row(canvas, backbone, 0) for canvas in canvases[at : at + _ROWS_AT_ONCE]]
        open_rows = [row for row in rows if len(row.masked)]
        _share_beginning(open_rows, engine)
        views = engine.base_views(open_rows, [engine.span(row, row.masked) for row in open_rows])
        if not open_rows:
            found += [np.empty((0, count), dtype=np.int64) for _ in rows]
            continue
        states = torch.cat([view.at(row.masked) for row, view in zip(open_rows, views, strict=True)])
        best = [
            engine.logits(part, ()).topk(count, dim=-1).indices.cpu() for part in torch.split(states, engine.logit_rows)
        ]
        ends = np.cumsum([len(row.masked) for row in rows])
        found += np.split(torch.cat(best).numpy(), ends[:-1])
    return found


def _share_beginning(rows: Sequence[Row], engine: Engine) -> None:
    """Block-causal: keys and values of what stands before a canvas' first hole are computed once for all canvases that
    begin alike, as those of one text with different holes do."""
    attention = engine.backbone.attention
    if attention.block_length is None or attention.earlier == "merged" or len(rows) < 2:
        return
    longest = max(rows, key=engine.cacheable)
    engine.base_views([longest], [engine.span(longest, longest.masked)])
    for row in rows:
        if row is not longest and longest.prefix is not None and row.start == longest.start:
            width = min(row.length, longest.length)
            differing = np.flatnonzero(row.canvas[:width] != longest.canvas[:width])
            alike = int(differing[0]) if len(differing) else width
            length = min(engine.cacheable(row), attention.first_column(attention.block(alike, row.start), row.start))
            row.prefix = longest.prefix.crop(length) if length else None


def refill(
    backbone: Backbone,
    canvases: Sequence[Canvas],
    *,
    seed: int = 0,
    temperature: float = 0.5,
    positions: PositionPolicy = "random",
    tokens_per_step: int = 1,
    batch_size: int = 8,
) -> list[list[int]]:
    """The ids of every canvas with its holes filled by clean decoding. EOS is never among them."""
    attention = backbone.attention
    decoding = Decoding(
        max_new_tokens=max([1, *(len(canvas.ids) for canvas in canvases)]),
        block_length=attention.block_length,
        block_origin=attention.origin,
        tokens_per_step=tokens_per_step,
        temperature=temperature,
        positions=positions,
        eos="ban",
    )
    engine, schedule = make_engine(backbone, decoding), make_schedule(decoding)
    rows = [_row(canvas, backbone, seed) for canvas in canvases]
    waiting = (row for row in rows if len(row.masked))
    active: list[Row] = []
    while active := [*active, *islice(waiting, batch_size - len(active))]:
        advance(active, engine, schedule, decoding, Step.commit)
        active = [row for row in active if len(row.masked)]
    return [row.generated.tolist() for row in rows]


def _row(canvas: Canvas, backbone: Backbone, seed: int) -> Row:
    total = len(canvas.prompt_ids) + len(canvas.ids)
    if total > backbone.max_length:
        raise ConfigError(
            f"text {canvas.id}: prompt and text need {total} positions, {backbone.name} has {backbone.max_length}",
            hint="cut the text into shorter stretches",
        )
    sample = Sample(canvas.id, "")
    row = Row(sample, list(canvas.prompt_ids), len(canvas.ids), backbone.mask_id, SampleRandom(seed, canvas.id))
    given = np.setdiff1d(np.arange(len(canvas.ids)), np.asarray(canvas.holes, dtype=np.int64))
    row.fill(given + row.start, np.asarray(canvas.ids, dtype=np.int64)[given])
    return row
