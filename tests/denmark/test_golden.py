"""Numbers made with the authors' functions (tests/golden/denmark_*.json)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.detect import unit_features, unit_scores
from wmbench_denmark.keys import UnitVectors, official_channels
from wmbench_denmark.rollouts import deduplicate, likely, rollout_count, select

from wmbench.types import TextContext

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
    assert np.abs(directions.astype(np.float64)).sum() == pytest.approx(case["dirs_abs_sum"], rel=1e-6)
    little_endian = np.ascontiguousarray(directions, dtype="<f4")
    assert hashlib.sha256(little_endian.tobytes()).hexdigest() == case["float32_le_sha256"]


def test_official_key_of_an_explicit_example() -> None:
    case = golden("unit_scores")["explicit"]
    config = DenMarkConfig(prf="official", channels=case["channels"])
    vectors = UnitVectors(config, None, case["dim"]).first(case["key_units"])
    embeddings = np.array(case["embeddings"])
    unit_length = embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True)
    scores = (unit_length * vectors[:3]).sum(axis=1)
    np.testing.assert_allclose(scores, case["g"], atol=1e-6)
    assert scores.mean() == pytest.approx(case["S"], abs=1e-6)


# --- generation ----------------------------------------------------------------------------------------------------


def test_rollout_schedule() -> None:
    published = golden("rollout_schedule")
    for table in published["tables"]:
        counts = [rollout_count(q, table["m"], table["R"], "linear") for q in table["remaining_desc"]]
        assert counts == table["count"]
        assert sum(counts) == table["total"]
    for table in published["multi_position"]:
        masks = list(range(table["m"], 0, -table["r"]))
        assert masks == table["remaining"]
        assert [rollout_count(q, table["m"], table["R"], "linear") for q in masks] == table["count"]
    for table in published["short_last_unit"]:
        counts = [rollout_count(q, table["block_len"], table["R"], "linear") for q in table["remaining_desc"]]
        assert counts == table["count"]
    assert rollout_count(1, 1, 3, "linear") == 3
    assert [rollout_count(q, 25, 3, "constant") for q in (25, 13, 1)] == [3, 3, 3]


@pytest.mark.parametrize("case", golden("generation_micro")["selection"])
def test_selection(case: dict[str, Any]) -> None:
    scores, log_p = np.mean(case["signed"], axis=1), np.array(case["base_logprobs"])
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


def official_scores(ids: list[int], codec: SyntheticCodec, **settings: Any) -> dict[str, float]:
    config = DenMarkConfig(prf="official", **settings)
    features = unit_features([" ".join(map(str, ids))], SyntheticEncoder(), codec, config, np.float32)
    views = unit_scores(features, None, config, TextContext())
    return dict(zip(views.names, views.scores[0].tolist(), strict=True))


@pytest.mark.parametrize("stream", golden("unit_scores")["streams"], ids=lambda s: s["name"])
def test_unit_scores_of_streams(stream: dict[str, Any]) -> None:
    ids = lcg_stream(stream["lcg_seed"], stream["n_tokens"])
    assert ids[:10] == stream["first10"][: len(ids)]
    # 25 key units are as many as the text has at any size, which is the paper's variant.
    variant = "reference" if stream["num_key_units"] == 12 else "all"
    scores = official_scores(ids, SyntheticCodec(), units=variant)
    assert scores.keys() == stream["scores"].keys()
    for size, expected in stream["scores"].items():
        assert scores[size] == pytest.approx(expected, abs=1e-6), size


def test_special_tokens_and_wordless_units() -> None:
    case = golden("unit_scores")["special_tokens"]
    codec = SyntheticCodec(case["special_ids"], case["undecodable_ids"])
    scores = official_scores(case["ids"], codec, units="reference", scan_sizes=(12, 20, 25))
    for size, expected in case["scores"].items():
        assert scores[size] == pytest.approx(expected, abs=1e-6), size
