"""Block decoding for semantic schemes made for causal models: whole units are proposed, and one of them is kept.

A causal model writes sentence after sentence, so a scheme may draw several, look at their meaning and keep one. A
diffusion model that decodes block by block can do the same with blocks: `step.fork` completes the first unfinished
unit of a row several times, and the scheme commits the completion it likes. One step of the loop is one unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from wmbench.runtime.settings import Decoding
from wmbench.semantics.scan_config import BlockConfig
from wmbench.semantics.units import distinct_ids, embed_ids
from wmbench.types import Commit, Encoder, IntArray, TextCodec

if TYPE_CHECKING:
    from wmbench.runtime.step import Step

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Unit:
    """The first unfinished unit of a row. A last unit may be short."""

    row: int
    number: int
    """b, from 0"""
    start: int
    end: int
    """Columns start .. end of the canvas."""


@dataclass(frozen=True, slots=True)
class Completions:
    """Completed versions of one unit."""

    unit: Unit
    ids: list[IntArray]
    """One [end - start] per completion."""
    vectors: Vectors
    """[completions, dimension]"""
    has_words: npt.NDArray[np.bool_]
    """[completions] False for those without any text."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def worded(self) -> IntArray:
        """Indices of the completions that have words: one without is chosen, the first, only when there is no other."""
        return np.flatnonzero(self.has_words) if self.has_words.any() else np.zeros(1, dtype=np.int64)


def first_units(step: Step, size: int) -> list[Unit]:
    """One unit per row of the step."""
    units = []
    for r, row in enumerate(step.rows):
        number = (int(row.masked[0]) - row.start) // size
        start = row.start + number * size
        units.append(Unit(r, number, start, min(row.length, start + size)))
    return units


def block_decoding(run: Decoding, size: int, temperature: float | None) -> Decoding:
    """The run's decoding, but unit by unit. Positions, tokens per step and blocks that fill a unit are the run's."""
    steps = run.steps or run.max_new_tokens
    in_blocks = run.schedule in ("block", "threshold")
    fills_units = in_blocks and run.block_length is not None and size % run.block_length == 0
    changes = {
        "schedule": run.schedule if in_blocks else "block",
        "block_length": run.block_length if fills_units else size,
        "block_origin": "answer",
        "steps": None,
        "tokens_per_step": (run.tokens_per_step or -(-run.max_new_tokens // steps)) if in_blocks else 1,
        "temperature": run.temperature if temperature is None else temperature,
    }
    return Decoding.model_validate({**run.model_dump(), **changes})


class Proposer:
    """Completes units and says what the completions mean."""

    def __init__(self, config: BlockConfig, encoder: Encoder, codec: TextCodec) -> None:
        self._config = config
        self._encoder = encoder
        self._codec = codec

    def propose(self, step: Step, units: Sequence[Unit], count: int, first: int = 0) -> list[Completions]:
        """`count` completions of every unit, number `first` and following; each has randomness of its own."""
        config = self._config
        decoding = block_decoding(step.decoding, config.unit_size, config.block_temperature)
        rows, until = [unit.row for unit in units], [unit.end for unit in units]
        forks = step.fork(rows, count, until, first_lane=first, decoding=decoding)
        return [
            self._described(unit, [fork.canvas[unit.start : unit.end] for fork in continuations])
            for unit, continuations in zip(units, forks, strict=True)
        ]

    def _described(self, unit: Unit, ids: list[IntArray]) -> Completions:
        """One encoder call per row, equal completions once: matrix products round a vector according to its place in
        the batch, and a sample's tokens must not depend on its neighbours."""
        distinct, index = distinct_ids(ids)
        vectors = embed_ids(self._encoder, self._codec, distinct)
        has_words = np.array([bool(self._codec.decode(row.tolist()).strip()) for row in distinct])
        return Completions(unit, ids, vectors[index], has_words[index])


def commit_units(step: Step, chosen: Sequence[tuple[Unit, IntArray]]) -> Commit:
    """Every unit filled with its ids, where the canvas is still masked."""
    rows, columns, tokens = [], [], []
    for unit, ids in chosen:
        masked = step.rows[unit.row].masked
        mine = masked[masked < unit.end]
        rows.append(np.full(len(mine), unit.row))
        columns.append(mine)
        tokens.append(ids[mine - unit.start])
    return Commit(np.concatenate(rows), np.concatenate(columns), np.concatenate(tokens))
