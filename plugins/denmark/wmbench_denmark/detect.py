"""Finding the mark: S_m'(text) = mean over its units b of <E(unit b), v_b>, for every size m' of the scan. No torch."""

from __future__ import annotations

from wmbench.keys import SecretKey
from wmbench.semantics.scan import UnitTable, mean_views
from wmbench.types import Features, TextContext, Views
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.keys import unit_vectors


def unit_scores(features: Features, key: SecretKey | None, config: DenMarkConfig, context: TextContext) -> Views:
    """S_m' of every text at every size."""
    table = UnitTable(features, config)
    vectors = unit_vectors(config, key, table.dimension).first(table.most_units)
    return mean_views(table, table.projections(vectors, table.units), context)
