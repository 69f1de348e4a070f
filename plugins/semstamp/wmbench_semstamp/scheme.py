"""SemStamp on blocks: completions of a unit are drawn until one falls into a bin that is valid after the last bin."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from wmbench import hookimpl
from wmbench.keys import SecretKey
from wmbench.semantics.blocks import Completions, Proposer, Unit, commit_units, first_units
from wmbench.semantics.scan import UnitDetector, UnitTable
from wmbench.semantics.units import embed_ids
from wmbench.types import Commit, Features, IntArray, SchemeContext, TextContext, Views
from wmbench_semstamp.chain import hits_along, z_of_hits
from wmbench_semstamp.config import SemStampConfig
from wmbench_semstamp.keys import Flags, Floats, SemStampKey, bins_of, far_from_borders

if TYPE_CHECKING:
    from wmbench.runtime.row import Row
    from wmbench.runtime.step import Step


class SemStamp(UnitDetector):
    """Marks with the context's key; scores with the key it is handed."""

    def __init__(self, config: SemStampConfig, context: SchemeContext) -> None:
        super().__init__(config, context)
        self._config = config
        self._key, self._codec = context.key, context.codec

    # --- marking -----------------------------------------------------------------------------------------------

    @cached_property
    def _marking(self) -> SemStampKey:
        return SemStampKey.of(self._config, self._key, self.encoder.dimension)

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        marking, config = self._marking, self._config  # raises before anything is decoded when there is no key
        proposer = Proposer(config, self.encoder, self._codec)
        units = first_units(step, config.unit_size)
        valid = {unit.row: marking.is_valid[self._last_bin(step.rows[unit.row], unit, marking)] for unit in units}
        accepted: dict[int, tuple[Unit, IntArray]] = {}
        fallback: dict[int, tuple[Unit, IntArray]] = {}
        for first in range(0, config.trials, config.candidates):
            open_units = [unit for unit in units if unit.row not in accepted]
            if not open_units:
                break
            count = min(config.candidates, config.trials - first)
            for found in proposer.propose(step, open_units, count, first):
                r = found.unit.row
                fits = np.flatnonzero(self._accepts(found, valid[r], marking))
                if len(fits):
                    accepted[r] = found.unit, found.ids[int(fits[0])]
                worded = np.flatnonzero(found.has_words)
                if len(worded) or r not in fallback:  # the last completion with words
                    fallback[r] = found.unit, found.ids[int(worded[-1]) if len(worded) else -1]
        return commit_units(step, [accepted.get(unit.row) or fallback[unit.row] for unit in units])

    def _accepts(self, found: Completions, valid: Flags, marking: SemStampKey) -> Flags:
        """[completions] those in a valid bin, with words, and far enough from the borders."""
        cosines = _cosines(found.vectors, marking)
        accepts: Flags = valid[bins_of(cosines)] & found.has_words & far_from_borders(cosines, self._config.margin)
        return accepts

    def _last_bin(self, row: Row, unit: Unit, marking: SemStampKey) -> int:
        """The bin of the last unit that has words; before the first one, that of the prompt."""
        size = self._config.unit_size
        for start in range(unit.start - size, row.start - 1, -size):
            ids = row.canvas[start : start + size]
            if self._codec.decode(ids.tolist()).strip():
                return int(bins_of(_cosines(embed_ids(self.encoder, self._codec, [ids]), marking))[0])
        return int(bins_of(_cosines(self.encoder.encode([row.sample.prompt]), marking))[0])

    # --- detection ---------------------------------------------------------------------------------------------

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        """One z per size: units whose bin is valid after that of the unit before. The first unit only begins the chain:
        the prompt is not known."""
        table, rate = UnitTable(features, self._config), self._config.rate
        marking = SemStampKey.of(self._config, key, table.dimension)
        projections = np.stack([table.projections(normal[None]) for normal in marking.normals], axis=1)  # [N, d]
        worded = table.counted(projections[:, 0])
        counted, hits = hits_along(bins_of(projections), table.groups, worded, marking.is_valid)
        n = table.totals(counted)
        shares = (hits - rate) * counted / np.sqrt(np.maximum(table.of_units(n), 1) * rate * (1 - rate))
        return table.views(z_of_hits(table.totals(hits), n, rate), shares, counted, context)


def _cosines(vectors: np.ndarray, marking: SemStampKey) -> Floats:
    """[n, d]; einsum sums every row by itself, so that equal texts fall into equal bins."""
    cosines: Floats = np.einsum("nd,cd->nc", vectors.astype(np.float64), marking.normals)
    return cosines
