"""Best of K: every unit is completed K times, and the completion with the best keyed score is kept."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from wmbench import hookimpl
from wmbench.keys import SecretKey
from wmbench.semantics.blocks import Completions, Proposer, commit_units, first_units
from wmbench.semantics.channels import UnitVectors, unit_vectors
from wmbench.semantics.scan import UnitDetector, UnitTable, mean_views
from wmbench.types import Commit, Features, IntArray, SchemeContext, TextContext, Views
from wmbench_block_best_of_k.config import BestOfKConfig

if TYPE_CHECKING:
    from wmbench.runtime.step import Step


SCHEME, VERSION = "block_best_of_k", 1
"""Under a secret key its vectors are not those of DenMark."""


class BlockBestOfK(UnitDetector):
    """Marks with the context's key; scores with the key it is handed."""

    def __init__(self, config: BestOfKConfig, context: SchemeContext) -> None:
        super().__init__(config, context)
        self._config = config
        self._key, self._codec = context.key, context.codec

    @cached_property
    def _vectors(self) -> UnitVectors:
        return unit_vectors(SCHEME, VERSION, self._config, self._key, self.encoder.dimension)

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        vectors = self._vectors  # raises before anything is decoded when there is no key
        proposer = Proposer(self._config, self.encoder, self._codec)
        proposed = proposer.propose(step, first_units(step, self._config.unit_size), self._config.candidates)
        return commit_units(step, [(found.unit, self._best(found, vectors)) for found in proposed])

    def _best(self, found: Completions, vectors: UnitVectors) -> IntArray:
        """The largest score of those that have words; among equal ones the first."""
        vector = vectors.first(found.unit.number + 1)[found.unit.number]
        # einsum sums every row by itself: equal completions score equal to the last bit.
        scores = np.einsum("nd,d->n", found.vectors.astype(np.float64), vector)
        return found.ids[int(found.worded[scores[found.worded].argmax()])]

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        table = UnitTable(features, self._config)
        vectors = unit_vectors(SCHEME, VERSION, self._config, key, table.dimension).first(table.most_units)
        return mean_views(table, table.projections(vectors, table.units), context)
