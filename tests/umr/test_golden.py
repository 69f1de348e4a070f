"""The published scorer under `prf: official`, exactly; and the third party's modulation formula."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from wmbench_umr.bitmap import KeyedBitmap, OfficialBitmap
from wmbench_umr.detect import message_votes, recovered_bits, z_score
from wmbench_umr.modulation import modulated

from wmbench.testing import toy_key

FOLDER = Path(__file__).parents[1] / "golden"
SCORING = json.loads((FOLDER / "umr_scoring.json").read_text(encoding="utf-8"))
DMARK = json.loads((FOLDER / "dmark_cpu_rng.json").read_text(encoding="utf-8"))
MODULATION = json.loads((FOLDER / "umr_modulation_reconstruction.json").read_text(encoding="utf-8"))


def test_context_seeds() -> None:
    for row in SCORING["context_seed_table"]:
        bitmap = OfficialBitmap(row["key"], row["prev"] + 1, 0.5, "1001")
        assert bitmap.seed(row["prev"]) == row["seed"]
        assert bitmap.bit_index[row["prev"]] == row["bit_index"]
        assert bitmap.target(np.array([row["prev"]]))[0] == row["target_bit"]


class DMarkBitmap(OfficialBitmap):
    """DMark seeds a row in its own way and draws it as UMR is taken to."""

    def seed(self, previous: int) -> int:
        return previous * self._official_key


def test_rows_are_drawn_as_dmark_draws_them() -> None:
    table = np.array([[bit == "1" for bit in row] for row in DMARK["bitmap_rows"]])
    previous, current = np.indices(table.shape)
    bitmap = DMarkBitmap(DMARK["key"], DMARK["vocab"], DMARK["ratio"], "1")
    assert (bitmap.base(previous, current) == table).all()
    packed = np.concatenate([bitmap._draw_row(token) for token in range(DMARK["vocab"])])
    assert len(packed) == DMARK["packed_file_len"]
    assert packed[:32].tolist() == DMARK["packed_file_first_bytes"]


@pytest.mark.parametrize("case", DMARK["detect"], ids=lambda case: f"rate={case['rate']:.2f}")
def test_z_of_dmark(case: Mapping[str, Any]) -> None:
    """The same count of pairs and the same z, on DMark's bitmap; the first token follows the last one of the prompt."""
    ids = np.array(case["ids"][case["prompt_len"] - 1 :])
    hits = DMarkBitmap(DMARK["key"], DMARK["vocab"], DMARK["ratio"], "1").hits(ids[:-1], ids[1:])
    assert hits.mean() == pytest.approx(case["rate"], abs=1e-8)
    assert z_score(hits, DMARK["ratio"]) == pytest.approx(case["z"], abs=1e-7)


@pytest.mark.parametrize("case", SCORING["cases"], ids=lambda case: f"n={case['total']}")
def test_scoring(case: Mapping[str, Any]) -> None:
    table = np.array(SCORING["bitmap"], dtype=bool)
    official = OfficialBitmap(case["key"], len(table), case["ratio"], "".join(map(str, case["message"])))
    ids = np.array(case["ids"])
    previous, current = ids[:-1], ids[1:]
    hits = table[previous, current]
    votes = message_votes(hits, official.bit_index[previous], official.target(previous), len(case["message"]))
    assert (hits.sum(), len(hits)) == (case["hits"], case["total"])
    assert z_score(hits, case["ratio"]) == pytest.approx(case["z"], abs=1e-8)
    assert votes.tolist() == case["votes"]
    assert recovered_bits(votes) == case["recovered_bits"]


@pytest.mark.parametrize("message", ["1", "0", "110", "10010110", "01" * 32])
def test_scoring_of_any_message(message: str) -> None:
    """The published loop over pairs, for other keys, ratios and lengths than the golden ones."""
    rng = np.random.default_rng(len(message))
    table = rng.random((50, 50)) < 0.4
    for key, ratio, length in ((0, 0.25, 0), (7, 0.9, 1), (42, 0.5, 2), (123456, 0.4, 200)):
        ids = rng.integers(50, size=length)
        expected, hits = [[0, 0] for _ in message], []
        for previous, current in zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True):
            bit = int(hashlib.sha256(f"{previous}{key}".encode()).hexdigest(), 16) % 2**32 % len(message)
            hits.append(bool(table[previous, current]))
            expected[bit][hits[-1] == (message[bit] == "1")] += 1
        bitmap, previous = OfficialBitmap(key, 50, ratio, message), ids[:-1]
        found = message_votes(
            table[previous, ids[1:]], bitmap.bit_index[previous], bitmap.target(previous), len(message)
        )
        assert found.tolist() == expected
        z = (sum(hits) - len(hits) * ratio) / (len(hits) * ratio * (1 - ratio)) ** 0.5 if hits else 0.0
        assert z_score(np.array(hits, dtype=bool), ratio) == pytest.approx(z)


@pytest.mark.parametrize("case", MODULATION["cases"], ids=lambda case: f"delta={case['delta']}")
def test_modulation(case: Mapping[str, Any]) -> None:
    p = torch.tensor(case["logits"], dtype=torch.float64).softmax(-1).numpy()
    green = np.array(case["green"], dtype=bool)
    assert p[green].sum() == pytest.approx(case["tau"], abs=1e-8)
    out = modulated(p, green, case["delta"])
    np.testing.assert_allclose(out, case["probs_out"], rtol=1e-6)
    assert out.argmax() == case["argmax"]
    kept = out[~green].sum() / p[~green].sum() * (1 + case["delta"]) / (out[green].sum() / p[green].sum())
    assert 1 - kept == pytest.approx(min(case["delta_prime"], 1 - 1e-6), abs=1e-6)
    assert (kept < 1e-5) == case["saturated"]


def test_modulation_leaves_one_colour_alone() -> None:
    p = np.array([[0.2, 0.8, 0.0], [0.5, 0.25, 0.25], [0.0, 0.0, 0.0]])
    green = np.array([[True, True, False], [False, False, False], [True, False, True]])
    assert (modulated(p, green, 10.0) == p).all()


@pytest.mark.parametrize("message", ["1", "0", "1001"])
def test_official_rows_are_torch_draws(message: str) -> None:
    """Row(prev) is torch.bernoulli from the context's seed, complemented where the message bit is 0; its beginning does
    not depend on the width, so a detector need not know the logits' width."""
    bitmap = OfficialBitmap(42, 61, 0.3, message)
    for previous in (0, 7, 60):
        generator = torch.Generator().manual_seed(bitmap.seed(previous))
        wide = torch.bernoulli(torch.full((67,), 0.3), generator=generator).numpy().astype(bool)[:61]
        expected = wide if bitmap.target(np.array(previous)) else ~wide
        assert (bitmap.hits(np.array(previous), np.arange(61)) == expected).all()


def test_keyed_bitmap_is_a_fair_function_of_the_key() -> None:
    one, other = (KeyedBitmap(toy_key(label), 300, 0.5, "1001") for label in ("one", "other"))
    pairs = np.arange(300)[:, None], np.arange(300)
    assert one.hits(*pairs).mean() == pytest.approx(0.5, abs=0.01)
    assert (one.hits(*pairs) == other.hits(*pairs)).mean() == pytest.approx(0.5, abs=0.01)
    assert np.bincount(one.bit_index).min() > 40
    flipped = KeyedBitmap(toy_key("one"), 300, 0.5, "0110")
    assert (flipped.hits(*pairs) == ~one.hits(*pairs)).all()


@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.8])
def test_z_does_not_drift_with_the_length_of_an_unmarked_text(ratio: float) -> None:
    """Rows that carry a 0 are complements: their hits are as frequent as the others' misses."""
    draws = np.random.default_rng(0)
    scores = []
    for name in range(40):
        bitmap = KeyedBitmap(toy_key(f"umr {name}"), 500, ratio, "1000")
        ids = draws.integers(500, size=2001)
        scores.append(z_score(bitmap.hits(ids[:-1], ids[1:]), bitmap.chances(ids[:-1])))
    assert abs(np.mean(scores)) < 4 / len(scores) ** 0.5
    assert 0.6 < np.std(scores) < 1.5
