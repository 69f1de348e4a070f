"""One denoising step of DenMark: candidates, rollouts, the best candidate of every active unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wmbench.keys import SecretKey
from wmbench.runtime.step import Step
from wmbench.types import Commit, Encoder, TextCodec
from wmbench_denmark.candidates import Candidates, active_units, draw_candidates
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.keys import unit_vectors
from wmbench_denmark.rollouts import UnitScorer, scores_of, select


class Decoder:
    """Decides steps under one key."""

    def __init__(self, config: DenMarkConfig, encoder: Encoder, codec: TextCodec, key: SecretKey | None) -> None:
        self._config = config
        self.scorer = UnitScorer(encoder, codec, unit_vectors(config, key, encoder.dimension))

    def decide(self, step: Step) -> Commit:
        """Every active unit gets the tokens of its best candidate; all of them are scored on the same canvas."""
        candidates, best = self.evaluate(step)
        return commit_of(candidates, best)

    def evaluate(self, step: Step) -> tuple[list[Candidates], list[int]]:
        """The candidates of every active unit, and which of them is the best."""
        candidates = draw_candidates(step, active_units(step, self._config), self._config)
        scores = scores_of(step, candidates, self.scorer, self._config)
        weight = self._config.likelihood_weight
        pairs = zip(scores, candidates, strict=True)
        return candidates, [select(s + weight * c.log_probability, c.log_probability) for s, c in pairs]


def commit_of(candidates: Sequence[Candidates], chosen: Sequence[int]) -> Commit:
    """The tokens of one candidate of every active unit."""
    pairs = list(zip(candidates, chosen, strict=True))
    return Commit(
        np.repeat([c.unit.row for c in candidates], [c.unit.count for c in candidates]),
        np.concatenate([c.columns[k] for c, k in pairs]),
        np.concatenate([c.tokens[k] for c, k in pairs]),
    )
