"""The unit table that all semantic detectors stand on."""

from __future__ import annotations

import numpy as np
import pytest

from wmbench.bench.build import Builder
from wmbench.bench.detector import Detector
from wmbench.bench.plan import resolve_runs
from wmbench.config import load_config
from wmbench.errors import ConfigError
from wmbench.host import Host
from wmbench.semantics.scan import UnitTable, mean_views
from wmbench.semantics.scan_config import ScanConfig
from wmbench.testing.toys import tiny_backbone
from wmbench.types import Features, TextContext

SIZES = ScanConfig(scan_sizes=(2, 3))
FEATURES = Features.pack(
    [
        # five tokens: three units of 2 tokens, of which the second has no words, and two of 3
        np.array([[1, 0], [0, 0], [0, 3], [2, 0], [0, 5]], dtype=np.float16),
        np.zeros((2, 2), dtype=np.float16),  # one token without text: a unit of either size
    ],
    [5, 1],
)


def test_units_are_numbered_by_text_and_size() -> None:
    table = UnitTable(FEATURES, SIZES)
    assert table.units.tolist() == [0, 1, 2, 0, 1, 0, 0]
    assert table.groups.tolist() == [0, 0, 0, 1, 1, 2, 3]
    assert (table.most_units, table.dimension) == (3, 2)


def test_units_without_words_are_left_out_of_the_mean() -> None:
    table = UnitTable(FEATURES, SIZES)
    scores = table.projections(np.array([[1.0, 1.0]]))
    assert scores.tolist() == [1, 0, 3, 2, 5, 0, 0]
    views = mean_views(table, scores, TextContext(evidence=True))
    assert views.names == ("2", "3")
    assert views.scores.tolist() == [[2.0, 3.5], [0.0, 0.0]]
    assert views.evidence is not None
    assert [(e.start, e.end, e.weight) for e in views.evidence[0]["2"]] == [(0, 2, 0.5), (4, 5, 1.5)]
    assert views.evidence[1]["2"] == ()


def test_a_vector_that_is_orthogonal_to_the_key_still_counts() -> None:
    table = UnitTable(FEATURES, SIZES)
    assert table.counted(table.projections(np.array([[0.0, 1.0]]))).tolist() == [
        True,
        False,
        True,
        True,
        True,
        False,
        False,
    ]


def test_reference_units_are_the_first_ones() -> None:
    config = ScanConfig(scan_sizes=(2, 3), units="reference", unit_size=5, reference_tokens=5)
    table = UnitTable(FEATURES, config)
    assert table.counted(np.ones(7)).tolist() == [True, False, False, True, False, True, True]


def test_features_of_other_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="not made with the present settings"):
        UnitTable(FEATURES, ScanConfig(scan_sizes=(2, 4, 5)))


def test_semantic_schemes_share_embeddings_whatever_they_do_with_them() -> None:
    def identity(name: str, **params: object) -> object:
        config = load_config(options={"schemes": [{"name": name, "params": params}], "backbone": "tiny", "attacks": []})
        (plan,) = resolve_runs(config, host)
        return Detector(plan, builder, tiny_backbone().codec).features_identity

    host = Host.discover()
    builder = Builder(host)
    first = identity("denmark")
    assert identity("denmark", candidates=4, channels=1, scan_rule="min_p", prf="official") == first
    assert all(identity(name) == first for name in ("block_best_of_k", "pmark", "semstamp"))
    assert identity("denmark", scan_sizes="20..30") != first
    assert identity("pmark", units="reference") != first
