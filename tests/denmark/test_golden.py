"""Numbers made with the authors' functions (tests/golden/denmark_*.json)."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.detect import unit_scores
from wmbench_denmark.keys import unit_vectors
from wmbench_denmark.rollouts import deduplicate, likely, rollout_count, select

from wmbench.semantics.channels import official_channels
from wmbench.semantics.scan import unit_features
from wmbench.types import TextContext, Views

GOLDEN = Path(__file__).parents[1] / "golden"


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"denmark_{name}.json").read_text(encoding="utf-8"))


# --- key -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", golden("key")["cases"], ids=lambda c: f"{c['num_units']}x{c['channels']}")
def test_official_key(case: dict[str, Any]) -> None:
    units, channels, dimension = case["shape"]
    directions, signs = official_channels(units, channels, dimension, case["direction_seed"], case["message_seed"])
    assert signs.tolist() == case["signs"]
    np.testing.assert_allclose(directions.ravel()[:8], case["dirs_first8"], atol=1e-8)
    np.testing.assert_allclose(directions.ravel()[-8:], case["dirs_last8"], atol=1e-8)
    np.testing.assert_allclose(directions[1, 0, :4], case["dirs_unit1_ch0_first4"], atol=1e-8)
    exact = directions.astype(np.float64).ravel()
    assert exact.sum() == pytest.approx(case["dirs_sum"], abs=1e-6)
    assert np.abs(exact).sum() == pytest.approx(case["dirs_abs_sum"], rel=1e-6)
    assert exact @ np.arange(exact.size) == pytest.approx(case["weighted_sum"], rel=1e-9)
    lengths = np.linalg.norm(exact.reshape(-1, dimension), axis=1)
    assert np.abs(lengths - 1).max() == pytest.approx(case["max_norm_error"], abs=1e-12)
    little_endian = np.ascontiguousarray(directions, dtype="<f4")
    assert hashlib.sha256(little_endian.tobytes()).hexdigest() == case["float32_le_sha256"]


def test_official_keys_of_other_shapes_share_their_rows() -> None:
    """More units leave the first ones alone; more channels deal the same rows to other units."""
    properties = golden("key")["properties"]
    few, many, single = (official_channels(*shape, 768, 42, 0) for shape in ((12, 2), (25, 2), (12, 1)))
    assert np.array_equal(few[0], many[0][:12]) == properties["prefix_stable_when_units_grow_dirs"]
    assert np.array_equal(few[1], many[1][:12]) == properties["prefix_stable_when_units_grow_signs"]
    mapping = properties["channels_change_mapping"]["unit1_of_C1_equals_unit0_channel1_of_C2"]
    assert np.array_equal(single[0][1, 0], few[0][0, 1]) == mapping


def test_official_key_of_an_explicit_example() -> None:
    case = golden("unit_scores")["explicit"]
    seeds = {"direction_seed": case["direction_seed"], "sign_seed": case["message_seed"]}
    config = DenMarkConfig(prf="official", channels=case["channels"], **seeds)
    vectors = unit_vectors(config, None, case["dim"]).first(case["key_units"])
    embeddings = np.array(case["embeddings"])
    unit_length = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    scores = (unit_length * vectors[: len(embeddings)]).sum(axis=1)
    np.testing.assert_allclose(scores, case["g"], atol=1e-6)
    assert scores.mean() == pytest.approx(case["S"], abs=1e-6)


@pytest.mark.parametrize("shape", [(1, 1, 3), (5, 1, 7), (25, 1, 8), (3, 3, 20)])
def test_official_key_of_any_shape(shape: tuple[int, int, int]) -> None:
    """One draw of exactly so many numbers, as the authors make it: torch's normal numbers depend on how many."""
    units, channels, dimension = shape
    plain = torch.randn(units * channels, dimension, generator=torch.Generator().manual_seed(7))
    directions, signs = official_channels(units, channels, dimension, 7, 8)
    np.testing.assert_allclose(directions.reshape(-1, dimension), plain / plain.norm(dim=1, keepdim=True), atol=1e-7)
    bits = torch.randint(0, 2, (units * channels,), generator=torch.Generator().manual_seed(8))
    assert (signs.ravel() == 2 * bits.numpy() - 1).all()


# --- generation ----------------------------------------------------------------------------------------------------


def test_rollout_schedule() -> None:
    published = golden("rollout_schedule")
    for table in published["tables"]:
        counts = [rollout_count(q, table["m"], table["R"], "linear") for q in table["remaining_desc"]]
        assert counts == table["count"]
        assert (sum(counts), sum(counts) / len(counts)) == (table["total"], pytest.approx(table["mean"], abs=1e-12))
    for table in published["multi_position"]:
        masks = list(range(table["m"], 0, -table["r"]))
        assert (masks, len(masks)) == (table["remaining"], table["steps"])
        counts = [rollout_count(q, table["m"], table["R"], "linear") for q in masks]
        assert counts == table["count"]
        assert (sum(counts), sum(counts) / len(counts)) == (table["total"], pytest.approx(table["mean"], abs=1e-12))
    for table in published["short_last_unit"]:
        counts = [rollout_count(q, table["block_len"], table["R"], "linear") for q in table["remaining_desc"]]
        assert counts == table["count"]
    assert rollout_count(1, 1, 3, "linear") == 3
    assert [rollout_count(q, 25, 3, "constant") for q in (25, 13, 1)] == [3, 3, 3]


def test_rollout_schedule_of_any_unit() -> None:
    """The formula in exact fractions: halves are rounded up."""
    for length in (2, 3, 7, 10, 25, 26, 50, 512):
        for mean in (1, 2, 3, 5, 8, 16):
            for masks in range(1, length + 1):
                exact = 1 + Fraction(2 * (mean - 1) * (masks - 1), length - 1)
                assert rollout_count(masks, length, mean, "linear") == math.floor(exact + Fraction(1, 2))


@pytest.mark.parametrize("case", golden("generation_micro")["selection"])
def test_selection(case: dict[str, Any]) -> None:
    # The authors compare in float32, where more numbers are equal.
    scores = np.array(case["signed"], dtype=np.float32).mean(axis=1).astype(np.float64)
    log_p = np.array(case["base_logprobs"], dtype=np.float32).astype(np.float64)
    assert select(scores, log_p) == case["selected"]
    considered = np.full(len(scores), -np.inf)
    half = likely(log_p, 0.5)
    considered[half] = scores[half]
    assert select(considered, log_p) == case["selected_top_half"]


@pytest.mark.parametrize("case", golden("generation_micro")["dedup"])
def test_deduplication(case: dict[str, Any]) -> None:
    rows = np.array(case["rows"])
    firsts, inverse = deduplicate(rows)
    assert rows[firsts].tolist() == case["unique"]
    assert inverse.tolist() == case["inverse"]
    assert len(rows) - len(firsts) == case["duplicates"]


# --- detection -----------------------------------------------------------------------------------------------------


class SyntheticCodec:
    """Ids written as numbers; some of them have no text."""

    size = 62
    fingerprint = "synthetic"

    def __init__(self, special: Sequence[int] = (), undecodable: Sequence[int] = ()) -> None:
        self.special_ids = frozenset(special)
        self._silent = {*special, *undecodable}

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(str(i) for i in ids if i not in self._silent)

    encode_prompt = encode


class SyntheticEncoder:
    """Token i adds 1 to feature i % 8 and takes 0.5 from feature (7 i + 3) % 8."""

    dimension = 8
    fingerprint = "synthetic"

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        rows = np.zeros((len(texts), 8))
        for row, text in zip(rows, texts, strict=True):
            for i in [int(word) for word in text.split() if word.isdecimal()]:
                row[i % 8] += 1
                row[(7 * i + 3) % 8] -= 0.5
        return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)).astype(np.float32)


def lcg_stream(seed: int, count: int) -> list[int]:
    ids, x = [], seed
    for _ in range(count):
        x = (1103515245 * x + 12345) % 2**31
        ids.append(2 + (x >> 16) % 60)
    return ids


def official_views(ids: list[int], codec: SyntheticCodec, **settings: Any) -> Views:
    config = DenMarkConfig(prf="official", **settings)
    features = unit_features([" ".join(map(str, ids))], SyntheticEncoder(), codec, config, np.float32)
    return unit_scores(features, None, config, TextContext(evidence=True))


def assert_views(views: Views, scores: dict[str, float], valid_units: dict[str, int]) -> None:
    assert views.evidence is not None
    found = dict(zip(views.names, views.scores[0].tolist(), strict=True))
    assert found.keys() == scores.keys()
    for size, expected in scores.items():
        assert found[size] == pytest.approx(expected, abs=1e-6), size
        assert len(views.evidence[0][size]) == valid_units[size], size


def variant(tokens: int, key_units: int) -> dict[str, Any]:
    """The authors' detector: `key_units` units of the first `tokens` tokens. If no unit size gives so many units, there
    are more than any text here has: then all are scored, which is the paper's detector."""
    sizes = [size for size in range(1, tokens + 1) if -(-tokens // size) == key_units]
    return {"units": "reference", "reference_tokens": tokens, "unit_size": sizes[0]} if sizes else {}


@pytest.mark.parametrize("stream", golden("unit_scores")["streams"], ids=lambda s: s["name"])
def test_unit_scores_of_streams(stream: dict[str, Any]) -> None:
    ids = lcg_stream(stream["lcg_seed"], stream["n_tokens"])
    assert ids[:10] == stream["first10"][: len(ids)]
    settings = variant(stream["max_tokens"], stream["num_key_units"])
    scan = sorted(int(size) for size in stream["scores"])
    views = official_views(ids[: stream["max_tokens"]], SyntheticCodec(), scan_sizes=scan, **settings)
    assert_views(views, stream["scores"], stream["valid_units"])


@pytest.mark.parametrize(
    ("tokens", "unit_size", "channels", "seeds"),
    [
        (0, 25, 2, (42, 0)),
        (1, 25, 2, (42, 0)),
        (95, 10, 3, (5, 9)),
        (310, 25, 1, (0, 1)),
        (33, 4, 4, (7, 7)),
        (300, 20, 1, (42, 0)),  # 15 directions of 8: no multiple of 16, so the last ones depend on how many there are
        (300, 12, 3, (1, 2)),
    ],
)
def test_official_scores_of_any_parameters(tokens: int, unit_size: int, channels: int, seeds: tuple[int, int]) -> None:
    """The authors' detector as its definition says it, for a key drawn in one call."""
    ids, limit = lcg_stream(3, tokens)[:300], 300
    key_units = -(-limit // unit_size)
    directions, signs = official_channels(key_units, channels, 8, *seeds)
    views = official_views(
        lcg_stream(3, tokens), SyntheticCodec(), units="reference", reference_tokens=limit, unit_size=unit_size,
        channels=channels, direction_seed=seeds[0], sign_seed=seeds[1], scan_sizes=(1, 7, 12, 25, 300),
    )  # fmt: skip
    for name, score in zip(views.names, views.scores[0].tolist(), strict=True):
        size = int(name)
        units = [ids[at : at + size] for at in range(0, len(ids), size)][:key_units]
        vectors = SyntheticEncoder().encode([" ".join(map(str, unit)) for unit in units])
        plain = [(signs[b] * (directions[b] @ vector)).mean() for b, vector in enumerate(vectors)]
        assert score == pytest.approx(np.mean(plain) if plain else 0.0, abs=1e-6), name


def test_special_tokens_and_wordless_units() -> None:
    case = golden("unit_scores")["special_tokens"]
    codec = SyntheticCodec(case["special_ids"], case["undecodable_ids"])
    scan = sorted(int(size) for size in case["scores"])
    views = official_views(case["ids"], codec, units="reference", scan_sizes=scan)
    assert_views(views, case["scores"], case["valid_units"])
    assert views.evidence is not None
    scored = [(b, g) for b, g in enumerate(case["per_unit"]) if g is not None]
    units = views.evidence[0]["25"]
    assert [unit.label for unit in units] == [f"unit {b} of size 25" for b, _ in scored]
    np.testing.assert_allclose([unit.weight * len(units) for unit in units], [g for _, g in scored], atol=1e-6)
    # The mean over the units with words is the score; the authors also print one in which the others count as 0.
    assert views.scores[0, -1] == pytest.approx(case["helper_mean_over_active"], abs=1e-6)
    over_all = views.scores[0, -1] * len(units) / len(case["per_unit"])
    assert over_all == pytest.approx(case["helper_mean_over_all_key_units"], abs=1e-6)
