"""The first half of a step: which units are active, and what the candidates of each of them fill in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wmbench.runtime.sampling import draw_tokens
from wmbench.runtime.step import Cells, Step
from wmbench.types import IntArray
from wmbench_denmark.config import DenMarkConfig

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ActiveUnit:
    """A unit of one row that gets tokens in this step."""

    row: int
    """Index among the step's rows."""
    number: int
    """b, from 0."""
    first: int
    """First column."""
    end: int
    """One past the last column; a last unit may be short."""
    masked: IntArray
    """Its masked columns, ascending."""
    open: npt.NDArray[np.bool_]
    """[masked] which of them candidates may fill"""
    count: int
    """How many of them every candidate fills."""
    given: IntArray | None = None
    """Columns the schedule chose in this unit; None under schedules that go unit by unit."""

    @property
    def length(self) -> int:
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class Candidates:
    """K fillings of an active unit."""

    unit: ActiveUnit
    columns: IntArray
    """[K, count], ascending in each row"""
    tokens: IntArray
    """[K, count]"""
    log_probability: Floats
    """[K] of the tokens under the base distribution at temperature 1; breaks ties."""
    base_logits: Tensor | None = None
    """[masked columns, V], kept for the prefilter only."""

    def filled(self, canvas: IntArray) -> IntArray:
        """[K, length] ids of the unit with each candidate's tokens, other masks left masked."""
        unit = self.unit
        ids = np.tile(canvas[unit.first : unit.end], (len(self.columns), 1))
        np.put_along_axis(ids, self.columns - unit.first, self.tokens, axis=1)
        return ids


def active_units(step: Step, config: DenMarkConfig) -> list[ActiveUnit]:
    """Schedules with blocks: the first unfinished unit of every row, whatever the block length, so that units are
    finished in order. Schedules over the whole answer: the units in which the schedule draws positions."""
    if step.decoding.schedule in ("block", "threshold"):
        scopes = [plan.scope if config.position_scope == "block" else None for plan in step.plans]
        firsts = [int(plan.scope[0]) for plan in step.plans]
        return [_unit_of(step, r, firsts[r], config, scope=scope) for r, scope in enumerate(scopes)]
    units = []
    for r, columns in enumerate(_drawn_columns(step, config)):
        numbers = (columns - step.rows[r].start) // config.unit_size
        for number in np.unique(numbers):
            given = columns[numbers == number]
            units.append(_unit_of(step, r, int(given[0]), config, given))
    return units


def draw_candidates(step: Step, units: Sequence[ActiveUnit], config: DenMarkConfig) -> list[Candidates]:
    """K candidates of every unit from one batch of base logits.

    Random positions are drawn before logits, so the LM head is computed only where some candidate wants a token.
    """
    chosen = [_random_choice(step, unit, config) for unit in units]  # [K, count] indices of masked, or None
    all_masks = config.prefilter is not None
    wanted = [
        np.arange(len(unit.masked)) if choice is None or all_masks else np.unique(choice)
        for unit, choice in zip(units, chosen, strict=True)
    ]
    cells = Cells(
        np.repeat([unit.row for unit in units], [len(w) for w in wanted]),
        np.concatenate([unit.masked[w] for unit, w in zip(units, wanted, strict=True)]),
    )
    uniforms = []
    for unit, w in zip(units, wanted, strict=True):
        shape = (len(unit.masked), config.candidates)
        uniforms.append(step.rows[unit.row].uniforms("candidate tokens", shape, lane=unit.number)[w])
    logits = step.logits(cells)
    u = torch.from_numpy(np.concatenate(uniforms)).to(logits.device)
    temperature = step.decoding.temperature if config.candidate_temperature is None else config.candidate_temperature
    top_p = step.decoding.top_p if config.candidate_top_p is None else config.candidate_top_p
    drawn = draw_tokens(logits, u, temperature, step.decoding.top_k, top_p)
    log_p = (logits.gather(1, drawn) - logits.logsumexp(1, keepdim=True)).double().cpu().numpy()  # [cells, K]
    tokens = drawn.cpu().numpy()  # [cells, K]: what candidate k would write there
    candidates, at = [], 0
    for unit, choice, w in zip(units, chosen, wanted, strict=True):
        mine = slice(at, at + len(w))
        at += len(w)
        if choice is None:
            choice = _likeliest(np.where(unit.open[:, None], log_p[mine], -np.inf), unit.count, config.same_positions)
        place = np.searchsorted(w, choice)  # [K, count] rows of tokens[mine]
        own = np.arange(config.candidates)[:, None]
        candidates.append(
            Candidates(
                unit,
                unit.masked[choice],
                tokens[mine][place, own],
                log_p[mine][place, own].sum(axis=1),
                logits[mine] if all_masks else None,
            )
        )
    return candidates


def _unit_of(
    step: Step,
    r: int,
    column: int,
    config: DenMarkConfig,
    given: IntArray | None = None,
    scope: IntArray | None = None,
) -> ActiveUnit:
    """The unit of a column; candidates may fill all of its masks, or those in the scope."""
    row = step.rows[r]
    number = (column - row.start) // config.unit_size
    first = row.start + number * config.unit_size
    end = min(first + config.unit_size, row.length)
    masked = row.masked[(row.masked >= first) & (row.masked < end)]
    may_fill = np.ones(len(masked), dtype=bool) if scope is None else np.isin(masked, scope)
    count = min(config.positions_per_candidate, int(may_fill.sum())) if given is None else len(given)
    return ActiveUnit(r, number, first, end, masked, may_fill, count, given)


def _drawn_columns(step: Step, config: DenMarkConfig) -> list[IntArray]:
    """Per row the columns the schedule fills natively, or `positions_per_candidate` random ones if that is above 1."""
    if config.positions_per_candidate > 1:
        columns = []
        for row in step.rows:
            draws = row.column_uniforms("transferred positions")[row.masked - row.start]
            columns.append(row.masked[_largest(draws, config.positions_per_candidate)])
        return columns
    if all(plan.positions is not None for plan in step.plans):
        return [plan.positions for plan in step.plans if plan.positions is not None]
    native = step.propose()
    return [np.sort(native.columns[native.rows == r]) for r in range(len(step.rows))]


def _random_choice(step: Step, unit: ActiveUnit, config: DenMarkConfig) -> IntArray | None:
    """[K, count] indices into the unit's masks; None if tokens must be known first."""
    masks = len(unit.masked)
    if config.same_positions and unit.given is not None:
        return np.tile(np.searchsorted(unit.masked, unit.given), (config.candidates, 1))
    if config.position_policy != "random":
        return None
    draws = step.rows[unit.row].uniforms("candidate positions", (config.candidates, masks), lane=unit.number)
    choice = _largest(np.where(unit.open, draws, -1.0), unit.count)
    return np.repeat(choice[:1], config.candidates, axis=0) if config.same_positions else choice


def _likeliest(log_p: Floats, count: int, same_positions: bool) -> IntArray:
    """[K, count] indices of the masks whose token is likeliest, from log_p [masks, K]."""
    choice = _largest(log_p.T, count)
    return np.repeat(choice[:1], len(choice), axis=0) if same_positions else choice


def _largest(values: Floats, count: int) -> IntArray:
    """Indices of the `count` largest values along the last axis, ascending; the first of equal ones."""
    return np.sort(np.argsort(-values, axis=-1, kind="stable")[..., :count], axis=-1)
