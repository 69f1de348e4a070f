"""The one denoising loop.

For every step: the schedule opens positions, the scheme's `decode_step` decides, the decision is checked and written.
Rows are ragged: each has its own clock, budget, caches and state; finished rows leave and new ones join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from wmbench.errors import ConfigError
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.engine import Engine
from wmbench.runtime.prompting import fitting_prompt
from wmbench.runtime.randomness import SampleRandom
from wmbench.runtime.row import Row
from wmbench.runtime.schedule import Schedule, make_schedule
from wmbench.runtime.settings import Decoding
from wmbench.runtime.soundness import check_commit
from wmbench.runtime.step import Decide, Step, write
from wmbench.runtime.threads import numpy_on_one_thread
from wmbench.types import Generation, Sample

Begin = Callable[[Sample], Any]


def make_engine(backbone: Backbone, decoding: Decoding) -> Engine:
    banned = sorted(backbone.eos_ids) if decoding.eos == "ban" else ()
    return Engine(backbone, banned, guidance=decoding.guidance)


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
    waiting = _distinct(samples)
    schedule = make_schedule(decoding)
    rows: list[Row] = []
    while True:
        rows += [_new_row(s, engine, decoding, begin, seed) for s in islice(waiting, batch_size - len(rows))]
        if not rows:
            return
        finished: list[Row] = []
        try:
            with numpy_on_one_thread():
                while not finished:
                    advance(rows, engine, schedule, decoding, decide)
                    finished = [row for row in rows if _is_finished(row, engine, decoding)]
        except torch.OutOfMemoryError as error:  # outside of forwards and head, which retreat by themselves
            raise engine.out_of_memory(error, f"while it decodes {len(rows)} samples at once") from error
        rows = [row for row in rows if row not in finished]
        yield from (_generation(row, engine, decoding) for row in finished)


def advance(
    rows: Sequence[Row],
    engine: Engine,
    schedule: Schedule,
    decoding: Decoding,
    decide: Decide,
    author: str = "the decision",
) -> None:
    """One step of every row."""
    with torch.no_grad():  # not inference mode: a scheme may want gradients of its logits (`torch.enable_grad()`)
        step = Step(rows, engine, schedule, decoding, advance, author)
        commit = decide(step)
        check_commit(commit, step)
        for r, row in enumerate(rows):
            write(commit, r, row, engine)


def _distinct(samples: Iterable[Sample]) -> Iterator[Sample]:
    """Randomness hangs on the sample id: two samples with one id would be one and the same text."""
    seen: set[str] = set()
    for sample in samples:
        if sample.id in seen:
            raise ConfigError(f"sample id {sample.id!r} occurs twice", hint="give every sample an id of its own")
        seen.add(sample.id)
        yield sample


def _new_row(sample: Sample, engine: Engine, decoding: Decoding, begin: Begin | None, seed: int) -> Row:
    prompt_ids = fitting_prompt(sample, engine.backbone, decoding)
    row = Row(sample, prompt_ids, decoding.max_new_tokens, engine.backbone.mask_id, SampleRandom(seed, sample.id))
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
