"""PMark on blocks: every unit is completed several times; one that is on the right side of all pivots is kept."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from wmbench import hookimpl
from wmbench.keys import SecretKey
from wmbench.semantics.blocks import Completions, Proposer, commit_units, first_units
from wmbench.semantics.scan import UnitDetector, UnitTable
from wmbench.types import Commit, Features, IntArray, SchemeContext, TextContext, Views
from wmbench_pmark.channels import soft_matches, survivors, z_of_mean
from wmbench_pmark.config import PMarkConfig
from wmbench_pmark.keys import PMarkKey

if TYPE_CHECKING:
    from wmbench.runtime.step import Step


class PMark(UnitDetector):
    """Marks with the context's key; scores with the key it is handed."""

    def __init__(self, config: PMarkConfig, context: SchemeContext) -> None:
        super().__init__(config, context)
        self._config = config
        self._key, self._codec = context.key, context.codec

    @cached_property
    def _marking(self) -> PMarkKey:
        return PMarkKey.of(self._config, self._key, self.encoder.dimension)

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        marking = self._marking  # raises before anything is decoded when there is no key
        proposer = Proposer(self._config, self.encoder, self._codec)
        proposed = proposer.propose(step, first_units(step, self._config.unit_size), self._config.candidates)
        return commit_units(step, [(found.unit, self._chosen(step, found, marking)) for found in proposed])

    def _chosen(self, step: Step, found: Completions, marking: PMarkKey) -> IntArray:
        """Any of the survivors among those that have words, drawn evenly."""
        cosines = np.einsum("nd,cd->nc", found.vectors[found.worded].astype(np.float64), marking.pivots)
        alive, _ = survivors(cosines, marking.bits(found.unit.number + 1)[found.unit.number], self._config.median)
        at = int(step.rows[found.unit.row].uniforms("pmark survivor", 1)[0] * len(alive))
        return found.ids[int(found.worded[alive[at]])]

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        """One z per size: matches of all channels and units that have words."""
        config, table = self._config, UnitTable(features, self._config)
        marking = PMarkKey.of(config, key, table.dimension)
        cosines = np.stack([table.projections(pivot[None]) for pivot in marking.pivots], axis=1)  # [N, b]
        counted = table.counted(cosines[:, 0])
        matches = soft_matches(cosines, marking.bits(table.most_units)[table.units], config.tolerance, config.sharpness)
        n = table.totals(counted) * config.channels
        mean = table.totals(matches.sum(axis=1) * counted) / np.maximum(n, 1)
        shares = (matches - 0.5).sum(axis=1) * counted / np.sqrt(np.maximum(table.of_units(n), 1) / 4)
        return table.views(z_of_mean(mean, n), shares, counted, context)
