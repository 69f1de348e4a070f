"""The step-advantage experiment (Proposition 2 of the paper).

pi commits the best candidate of every step, pi0 the first one: both draw the same candidates. With Q(c) the expected
score when c is committed now and pi decides all that follows,

    advantage of step t = E[Q(best candidate) - Q(first candidate)],  the steps before t decided by pi0,

and the advantages of all steps add up to E[score under pi] - E[score under pi0]. Here one trajectory follows pi0; at
each of its steps both commits are continued by pi with equal randomness, so that their difference is a paired estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from wmbench.errors import ConfigError
from wmbench.runtime.row import Row
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Step
from wmbench.types import Commit, Generation, IntArray
from wmbench_denmark.candidates import active_units, draw_candidates
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.decode import Decoder, commit_of

Scope = Literal["unit", "document"]
Floats = npt.NDArray[np.float64]
_RESAMPLES = 2000


@dataclass
class Span:
    """What is scored: one unit of one answer, or the whole answer."""

    sample: str
    units: range
    advantages: list[float] = field(default_factory=list)
    """One per step."""
    marked: float = np.nan
    """Score under pi from the span's first step on, by continuations of their own."""
    reference: float = np.nan
    """Score of the trajectory itself, under pi0."""


class StepAdvantage:
    """Decides as pi0 does, and measures what pi would have gained at every step."""

    def __init__(
        self,
        decoder: Decoder,
        config: DenMarkConfig,
        decoding: Decoding,
        scope: Scope = "unit",
        *,
        continuations: int = 1,
        units: int | None = None,
        collapse: bool = False,
    ) -> None:
        if scope == "unit" and decoding.schedule not in ("block", "threshold"):
            raise ConfigError(
                f"the {decoding.schedule} schedule does not finish unit after unit", hint="use --scope document"
            )
        if decoding.eos == "stop":
            raise ConfigError("step advantages need whole answers", hint="-D eos=continue")
        self._decoder = decoder
        self._config = config
        self._scope = scope
        self._continuations = continuations
        self._units = units
        self._collapse = collapse  # the control: "best" is the first candidate, so that every difference must be 0
        self._spans: dict[tuple[str, int], Span] = {}

    def decide(self, step: Step) -> Commit:
        config = self._config
        active = active_units(step, config)
        first_units = {unit.row: unit.number for unit in reversed(active)}
        measured = [r for r in range(len(step.rows)) if self._scope == "document" or self._is_measured(first_units[r])]
        if not measured:
            candidates = draw_candidates(step, active, config)
            return commit_of(candidates, [0] * len(candidates))
        candidates, best = self._decoder.evaluate(step)
        reference = commit_of(candidates, [0] * len(candidates))
        selected = reference if self._collapse else commit_of(candidates, best)
        spans = [self._span(step.rows[r], first_units[r]) for r in measured]
        differ = [i for i, r in enumerate(measured) if self._collapse or not _equal(selected, reference, r)]
        advantages = np.zeros(len(measured))
        if differ:
            both = [
                self._values(step, [measured[i] for i in differ], [spans[i] for i in differ], commit, first_lane=0)
                for commit in (selected, reference)
            ]
            advantages[differ] = (both[0] - both[1]).mean(axis=1)
        beginning = [i for i, span in enumerate(spans) if not span.advantages]
        if beginning:
            lane = self._continuations  # lanes that no pair uses
            rows, begun = [measured[i] for i in beginning], [spans[i] for i in beginning]
            for span, values in zip(begun, self._values(step, rows, begun, selected, first_lane=lane), strict=True):
                span.marked = float(values.mean())
        for span, advantage in zip(spans, advantages.tolist(), strict=True):
            span.advantages.append(advantage)
        return reference

    def finish(self, generations: Sequence[Generation]) -> list[Span]:
        """The spans in order, with the scores of the trajectories."""
        tokens = {g.sample.id: np.array(g.token_ids, dtype=np.int64) for g in generations}
        for span in self._spans.values():
            span.reference = self._score(tokens[span.sample], span)
        return [self._spans[name] for name in sorted(self._spans)]

    def _is_measured(self, unit: int) -> bool:
        return self._units is None or unit < self._units

    def _span(self, row: Row, unit: int) -> Span:
        sample = row.sample.id
        if self._scope == "document":
            count = -(-(row.length - row.start) // self._config.unit_size)
            return self._spans.setdefault((sample, 0), Span(sample, range(count)))
        return self._spans.setdefault((sample, unit), Span(sample, range(unit, unit + 1)))

    def _values(self, step: Step, rows: Sequence[int], spans: Sequence[Span], first: Commit, first_lane: int) -> Floats:
        """[rows, continuations] scores of the spans when `first` is committed and pi goes on."""
        size = self._config.unit_size
        until = [
            min(step.rows[r].length, step.rows[r].start + span.units.stop * size)
            for r, span in zip(rows, spans, strict=True)
        ]
        forks = step.fork(
            rows, self._continuations, until, first=first, first_lane=first_lane, decide=self._decoder.decide
        )
        return np.array(
            [
                [self._score(continued.canvas[step.rows[r].start :], span) for continued in fork]
                for r, span, fork in zip(rows, spans, forks, strict=True)
            ]
        )

    def _score(self, answer: IntArray, span: Span) -> float:
        """Mean of g_b over the span's units."""
        size = self._config.unit_size
        units = [answer[b * size : (b + 1) * size] for b in span.units]
        return float(self._decoder.scorer.each(np.array(span.units), units).mean())


def _equal(one: Commit, other: Commit, r: int) -> bool:
    """Whether two commits write the same into row r."""
    cells = [
        dict(zip(c.columns[c.rows == r].tolist(), c.tokens[c.rows == r].tolist(), strict=True)) for c in (one, other)
    ]
    return cells[0] == cells[1]


# --- what the spans say ----------------------------------------------------------------------------------------


def cumulative_curves(spans: Sequence[Span]) -> Floats:
    """[spans, steps]; a span with fewer steps stays where it ended."""
    steps = max(len(span.advantages) for span in spans)
    return np.array([np.cumsum(span.advantages + [0.0] * (steps - len(span.advantages))) for span in spans])


def summary(spans: Sequence[Span], seed: int = 0) -> dict[str, Any]:
    """The mean cumulative curve with a bootstrap interval over prompts, and whether the identity holds."""
    curves = cumulative_curves(spans)
    prompts, prompt_of = np.unique([span.sample for span in spans], return_inverse=True)
    counts = np.bincount(prompt_of)
    sums = np.zeros((len(prompts), curves.shape[1]))
    np.add.at(sums, prompt_of, curves)
    draws = np.random.Generator(np.random.Philox(seed)).integers(len(prompts), size=(_RESAMPLES, len(prompts)))
    resampled = sums[draws].sum(axis=1) / counts[draws].sum(axis=1)[:, None]
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    gaps = np.array([sum(span.advantages) - (span.marked - span.reference) for span in spans])
    per_prompt = np.bincount(prompt_of, weights=gaps) / counts
    error = float(per_prompt.std(ddof=1) / np.sqrt(len(prompts))) if len(prompts) > 1 else None
    gap = float(per_prompt.mean())
    return {
        "prompts": len(prompts),
        "spans": len(spans),
        "mean": curves.mean(axis=0).tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
        "interval": f"95% percentile bootstrap over prompts, {_RESAMPLES} resamples",
        "identity": {
            "sum_of_advantages": float(curves[:, -1].mean()),
            "score_under_pi": float(np.mean([span.marked for span in spans])),
            "score_under_pi0": float(np.mean([span.reference for span in spans])),
            "gap": gap,
            "standard_error": error,
            "z": gap / error if error else None,
        },
        "curves": [{"sample": span.sample, "unit": span.units.start, "advantages": span.advantages} for span in spans],
    }
