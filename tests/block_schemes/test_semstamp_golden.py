"""SemStamp's published hyperplanes, bins, margins, valid bins and test, number by number (permuted on the CPU)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wmbench_semstamp.chain import hits_along, z_of_hits
from wmbench_semstamp.config import SemStampConfig
from wmbench_semstamp.keys import SemStampKey, bins_of, far_from_borders, official_normals, official_valid

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "semstamp_cpu_rng.json").read_text())
EMBEDDINGS = np.array(GOLDEN["embeddings"])


def test_hyperplanes_bins_and_margins() -> None:
    normals = official_normals(GOLDEN["dim"], GOLDEN["embedding_dim"], GOLDEN["lsh_seed"])
    np.testing.assert_allclose(normals, GOLDEN["normals"], atol=1e-6)
    assert bins_of(EMBEDDINGS @ normals.T).tolist() == GOLDEN["hash_ints"]
    lengths = np.linalg.norm(EMBEDDINGS, axis=1)[:, None] * np.linalg.norm(normals, axis=1)
    far = far_from_borders(EMBEDDINGS @ normals.T / lengths, GOLDEN["margin"])
    assert np.flatnonzero(far).tolist() == GOLDEN["margin_pass_indices"]


@pytest.mark.parametrize(
    ("name", "bins", "count"), [("d2_rate0.25", 4, 1), ("d3_rate0.25", 8, 2), ("d3_rate0.5", 8, 4)]
)
def test_valid_bins(name: str, bins: int, count: int) -> None:
    expected = {int(previous): valid for previous, valid in GOLDEN["valid_bins"][name].items()}
    assert dict(enumerate(v.tolist() for v in official_valid(bins, count))) == expected


def test_clusters_have_the_same_rule() -> None:
    """k-SemStamp's valid clusters: eight clusters in place of eight bins."""
    expected = GOLDEN["kmeans_valid_clusters_k8_l0_25"]
    assert {str(i): v.tolist() for i, v in enumerate(official_valid(8, 2))} == expected


@pytest.mark.parametrize("case", GOLDEN["detect"], ids=["0", "1", "2"])
def test_z_of_a_chain(case: dict[str, Any]) -> None:
    config = SemStampConfig(prf="official", bits=case["dim"], rate=case["lmbd"])
    is_valid = SemStampKey.of(config, None, 16).is_valid
    bins = np.array(case["hash_sequence"])
    counted, hits = hits_along(bins, np.zeros(len(bins), dtype=np.int64), np.ones(len(bins), dtype=bool), is_valid)
    z = z_of_hits(np.array(float(hits.sum())), np.array(float(counted.sum())), case["lmbd"])
    assert z == pytest.approx(case["z"], abs=1e-6)


def test_chains_skip_units_without_words_and_end_with_the_text() -> None:
    is_valid = np.eye(4, dtype=bool)
    bins = np.array([1, 3, 1, 1, 1])
    counted, hits = hits_along(bins, np.array([0, 0, 0, 1, 1]), np.array([1, 0, 1, 1, 1], dtype=bool), is_valid)
    assert counted.tolist() == [False, False, True, False, True]
    assert hits.tolist() == [False, False, True, False, True]


def test_no_valid_bin_is_refused() -> None:
    with pytest.raises(ValueError, match="raise `rate` or `bits`"):
        SemStampConfig(bits=1, rate=0.25)


def test_a_table_of_bins_stays_small() -> None:
    """Every bin has its valid bins: 2^10 of them are a table of a megabyte, and 2^16 would be one of four gigabytes."""
    with pytest.raises(ValueError, match="less than or equal to 10"):
        SemStampConfig(bits=11)
