"""PMark's published pivots, medians, filter, matches and test, number by number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr
from wmbench_pmark.channels import Median, median_of, soft_matches, survivors, z_of_mean
from wmbench_pmark.keys import official_bits, official_pivots

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "pmark.json").read_text())
BITS = np.array(GOLDEN["secret_bits_rows_signum4"], dtype=np.uint8)
COSINES = np.array(GOLDEN["cosine_projections"])


def test_pivots_and_cosines() -> None:
    pivots = official_pivots(16, 4)
    np.testing.assert_allclose(pivots, GOLDEN["pivots_dim16_num4_seed42"], atol=1e-6)
    embeddings = np.array(GOLDEN["embeddings"])
    cosines = embeddings @ pivots.T / np.linalg.norm(embeddings, axis=1, keepdims=True)
    np.testing.assert_allclose(cosines, COSINES, atol=1e-6)


@pytest.mark.parametrize(("kind", "name"), [("lower", "torch_lower_median"), ("harrell_davis", "harrell_davis_median")])
def test_medians(kind: Median, name: str) -> None:
    found = [median_of(COSINES[:, channel], kind) for channel in range(4)]
    np.testing.assert_allclose(found, GOLDEN[name], atol=1e-6)


@pytest.mark.parametrize(("kind", "name"), [("lower", "torch"), ("harrell_davis", "hd"), ("prior", "prior")])
def test_filter_channel_by_channel(kind: Median, name: str) -> None:
    for sentence, expected in GOLDEN["sequential_filter_reimplemented"][name].items():
        alive, medians = survivors(COSINES, BITS[int(sentence)], kind)
        assert alive.tolist() == expected["alive"]
        np.testing.assert_allclose(medians, expected["step_medians"], atol=1e-6)


def test_soft_matches_and_their_test() -> None:
    expected = np.array(GOLDEN["soft_matches_reimplemented_K250_tol0_001"])
    # Sentence i + 1 has row i + 1 of the bits; the numbers were made with the five rows 1 to 5 over and over.
    found = soft_matches(COSINES, BITS[1 + np.arange(len(COSINES)) % 5], 1e-3, 250.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    z = z_of_mean(np.array(found.mean()), np.array(float(found.size)))
    assert z == pytest.approx(GOLDEN["official_z_test"]["z"], abs=1e-6)
    assert ndtr(-z) == pytest.approx(GOLDEN["official_z_test"]["p"], abs=1e-6)


def test_bits_do_not_depend_on_how_many_are_drawn() -> None:
    assert (official_bits(40, 2)[:7] == official_bits(7, 2)).all()
    drawn = np.random.default_rng(0).integers(0, 2, (3, 2))
    assert official_bits(2, 2).tolist() == drawn[1:].tolist()  # row 0 is not used


def test_bit_0_keeps_the_lower_median_itself_where_nothing_lies_below() -> None:
    cosines = np.array([[0.2], [0.1]])
    assert survivors(cosines, np.array([0], dtype=np.uint8), "lower")[0].tolist() == [1]
    assert survivors(cosines, np.array([0], dtype=np.uint8), "harrell_davis")[0].tolist() == [1]


def test_a_channel_that_nobody_passes_is_left_out() -> None:
    cosines = np.array([[0.2, 0.1], [0.3, -0.1]])
    assert survivors(cosines, np.array([0, 1], dtype=np.uint8), "prior")[0].tolist() == [0]
