"""The second half of a step: complete the unit of every candidate by rollouts, score the completions, choose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import numpy.typing as npt
import torch

from wmbench.errors import ConfigError
from wmbench.runtime.lookahead import Edit
from wmbench.runtime.sampling import draw_tokens
from wmbench.runtime.step import Step
from wmbench.semantics.channels import UnitVectors
from wmbench.semantics.units import distinct_ids, embed_ids
from wmbench.types import Encoder, IntArray, TextCodec
from wmbench_denmark.candidates import ActiveUnit, Candidates
from wmbench_denmark.config import DenMarkConfig, RolloutSchedule

Floats = npt.NDArray[np.float64]
_MARGIN = 4
"""Columns on each side of a unit that approximate look-ahead computes anew."""


def rollout_count(masks: int, length: int, mean: int, schedule: RolloutSchedule) -> int:
    """R_t of a unit of `length` columns with `masks` left: linear from 2R - 1 down to 1, halves rounded up."""
    if schedule == "constant" or length == 1:
        return mean
    return max(1, math.floor(1 + 2 * (mean - 1) * (masks - 1) / (length - 1) + 0.5))


def rollout_temperature(step: Step, config: DenMarkConfig) -> float:
    return step.decoding.temperature if config.rollout_temperature is None else config.rollout_temperature


def deduplicate(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Indices of the distinct rows in order of appearance, and for every row which of them it equals."""
    place: dict[bytes, int] = {}
    inverse = np.array([place.setdefault(row.tobytes(), len(place)) for row in rows], dtype=np.int64)
    return np.unique(inverse, return_index=True)[1], inverse


def likely(log_probability: Floats, fraction: float) -> IntArray:
    """Indices, ascending, of the likeliest candidates: this fraction of them, rounded up."""
    count = math.ceil(fraction * len(log_probability))
    return np.sort(np.argsort(-log_probability, kind="stable")[:count])


def select(scores: Floats, log_probability: Floats) -> int:
    """The best score; among equal ones the likeliest, then the first."""
    tied = np.flatnonzero(scores == scores.max())
    return int(tied[np.argmax(log_probability[tied])])


@dataclass(frozen=True, slots=True)
class Completions:
    """Completed versions of one active unit."""

    unit: ActiveUnit
    ids: list[IntArray]
    """One [R, length] per candidate looked at."""


class UnitScorer:
    """Mean of g_b over completions."""

    def __init__(self, encoder: Encoder, codec: TextCodec, vectors: UnitVectors) -> None:
        self._encoder = encoder
        self._codec = codec
        self._vectors = vectors

    def means(self, completed: Sequence[Completions]) -> list[Floats]:
        """For every unit the mean score [candidates looked at].

        One encoder batch per row, all its units together: matrix products round a vector according to its place in
        the batch, and a sample's tokens must not depend on its neighbours.
        """
        by_row = groupby(completed, key=lambda completions: completions.unit.row)
        return [mean for _, group in by_row for mean in self._means_of_row(list(group))]

    def each(self, numbers: IntArray, units: Sequence[IntArray]) -> Floats:
        """g_b of every unit of ids, b = numbers[i]; equal ones are encoded once."""
        distinct, index = distinct_ids(units)
        embeddings = embed_ids(self._encoder, self._codec, distinct)
        vectors = self._vectors.first(int(numbers.max()) + 1)
        # einsum sums every row by itself: equal texts score equal to the last bit, which ties rely on.
        scores: Floats = np.einsum("nd,nd->n", embeddings[index].astype(np.float64), vectors[numbers])
        if not np.isfinite(scores).all():
            raise ConfigError(
                "the encoder returned vectors that are no numbers", hint="name another one: -S encoder=..."
            )
        return scores

    def _means_of_row(self, completed: Sequence[Completions]) -> list[Floats]:
        parts = [ids for completions in completed for ids in completions.ids]
        counts = np.array([len(part) for part in parts])
        looked_at = [len(completions.ids) for completions in completed]
        numbers = np.repeat(np.repeat([completions.unit.number for completions in completed], looked_at), counts)
        scores = self.each(numbers, [ids for part in parts for ids in part])
        means = np.add.reduceat(scores, np.cumsum(counts) - counts) / counts
        return np.split(means, np.cumsum(looked_at)[:-1])


def scores_of(step: Step, candidates: Sequence[Candidates], scorer: UnitScorer, config: DenMarkConfig) -> list[Floats]:
    """For every active unit the rollout estimate W [K]; candidates that are not considered have minus infinity.

    Equal candidates share a forward. With common random numbers they would share their rollouts, too, so only one of
    them is looked at.
    """
    kept = [likely(c.log_probability, config.likely_fraction) for c in candidates]
    if config.prefilter is not None:
        kept = _prefiltered(step, candidates, kept, scorer, config)
    looked_at, inverses = [], []
    for c, considered in zip(candidates, kept, strict=True):
        firsts, inverse = deduplicate(c.filled(step.rows[c.unit.row].canvas)[considered])
        if not config.common_random_numbers:
            firsts, inverse = np.arange(len(considered)), np.arange(len(considered))
        looked_at.append(considered[firsts])
        inverses.append(inverse)
    means = scorer.means(_rolled_out(step, candidates, looked_at, config))
    scores = []
    for considered, inverse, mean in zip(kept, inverses, means, strict=True):
        all_scores = np.full(config.candidates, -np.inf)
        all_scores[considered] = mean[inverse]
        scores.append(all_scores)
    return scores


def _rolled_out(
    step: Step, candidates: Sequence[Candidates], looked_at: Sequence[IntArray], config: DenMarkConfig
) -> list[Completions]:
    """Rollouts from the candidate-conditioned distributions: one forward per distinct candidate, none for those that
    complete their unit."""
    edits, rests, uniforms, blanks = list[Edit](), list[IntArray](), list[Floats](), list[IntArray]()
    for c, indices in zip(candidates, looked_at, strict=True):
        unit, row = c.unit, step.rows[c.unit.row]
        filled = c.filled(row.canvas)
        draws = _rollout_uniforms(step, unit, config)
        for k in indices:
            rest = unit.first + np.flatnonzero(filled[k] == row.mask_id)
            edits.append(Edit(unit.row, c.columns[k], c.tokens[k]))
            rests.append(rest)
            # A completed unit has nothing to roll out: it is its own only completion.
            uniforms.append(draws[k, rest - unit.first] if len(rest) else np.empty((0, 1)))
            blanks.append(filled[k])
    windows = None
    if config.stale_context:
        windows = [_window(step, c.unit) for c, kept in zip(candidates, looked_at, strict=True) for _ in kept]
    temperature = rollout_temperature(step, config)
    drawn = step.lookahead(edits, windows).sample(
        rests, uniforms, temperature, step.decoding.top_k, step.decoding.top_p
    )
    completed, at = [], 0
    for c, indices in zip(candidates, looked_at, strict=True):
        mine = range(at, at + len(indices))
        at += len(indices)
        ids = [_completed(blanks[i], rests[i] - c.unit.first, drawn[i]) for i in mine]
        completed.append(Completions(c.unit, ids))
    return completed


def _window(step: Step, unit: ActiveUnit) -> tuple[int, int]:
    """The unit and a few columns around it: models may mix neighbours before attention, too."""
    return max(0, unit.first - _MARGIN), min(unit.end + _MARGIN, step.rows[unit.row].length)


def _rollout_uniforms(step: Step, unit: ActiveUnit, config: DenMarkConfig) -> Floats:
    """[K, length, R_t]; with common random numbers every candidate has the same."""
    count = rollout_count(len(unit.masked), unit.length, config.rollouts, config.rollout_schedule)
    row = step.rows[unit.row]
    if config.common_random_numbers:
        shared = row.uniforms("rollouts", (unit.length, count), lane=unit.number)
        return np.broadcast_to(shared, (config.candidates, *shared.shape))
    return row.uniforms("rollouts", (config.candidates, unit.length, count), lane=unit.number)


def _prefiltered(
    step: Step,
    candidates: Sequence[Candidates],
    considered: Sequence[IntArray],
    scorer: UnitScorer,
    config: DenMarkConfig,
) -> list[IntArray]:
    """The best few of each unit, by rollouts that ignore what the candidate changes in the distribution."""
    completed = []
    temperature = rollout_temperature(step, config)
    for c, indices in zip(candidates, considered, strict=True):
        assert c.base_logits is not None
        unit, places = c.unit, c.unit.masked - c.unit.first
        # The uniforms of candidate 0 serve all, so that one draw does.
        u = torch.from_numpy(_rollout_uniforms(step, unit, config)[0, places]).to(c.base_logits.device)
        drawn = draw_tokens(c.base_logits, u, temperature, step.decoding.top_k, step.decoding.top_p).cpu().numpy()
        row, ids = step.rows[unit.row], []
        for blank in c.filled(row.canvas)[indices]:
            free = blank[places] == row.mask_id
            ids.append(_completed(blank, places[free], drawn[free]))
        completed.append(Completions(unit, ids))
    kept = []
    for c, indices, mean in zip(candidates, considered, scorer.means(completed), strict=True):
        worth = mean + config.likelihood_weight * c.log_probability[indices]  # as the choice itself weighs them
        kept.append(np.sort(indices[np.argsort(-worth, kind="stable")[: config.prefilter]]))
    return kept


def _completed(blank: IntArray, places: IntArray, drawn: IntArray) -> IntArray:
    """[R, length]: the unit `blank` [length] with the tokens drawn [places, R] in its places."""
    ids = np.broadcast_to(blank, (drawn.shape[1], len(blank))).copy()
    ids[:, places] = drawn.T
    return ids
