"""Texts are compared with texts of like length; and why that matters to a scan over many views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wmbench.bench.measure import like_length_auc_over_keys
from wmbench.detection import Calibration, LikeLength, auc

SIZES = range(12, 38)
LONGEST = 300


def test_lengths_are_alike_within_five_percent_of_the_positive() -> None:
    negatives = np.repeat([284, 285, 300, 315, 316], 20)
    like = LikeLength.of([300], negatives)
    ((_, alike),) = like.pairs
    assert sorted(set(negatives[alike])) == [285, 300, 315]
    assert (like.matched, like.unmatched, like.negatives) == (1, 0, (60, 60))


def test_a_text_with_too_few_of_its_length_is_left_out_and_counted() -> None:
    negatives = [200] * 20 + [300] * 19
    like = LikeLength.of([200, 300, 200, 300, 300], negatives)
    assert (like.matched, like.unmatched, like.negatives) == (2, 3, (20, 20))
    pos = np.array([1.0, 9.0, -1.0, 9.0, 9.0])
    assert like.auc(pos, np.zeros(39)) == 0.5  # one of the two wins, one loses; the others are not asked
    nothing = like_length_auc_over_keys(pos[None], np.zeros((1, 39)), [300] * 5, negatives)
    assert (nothing["estimate"], nothing["texts"], nothing["unmatched"], nothing["nulls"]) == (None, 0, 5, [0, 0])
    assert "20 held-out null texts" in nothing["why"]


def test_it_is_the_mean_over_texts_with_ties_counted_half() -> None:
    draw = np.random.default_rng(0)
    pos_tokens, neg_tokens = draw.integers(150, 301, 40), draw.integers(150, 301, 500)
    pos, neg = draw.integers(0, 5, 40).astype(float), draw.integers(0, 5, 500).astype(float)
    wins = []
    for score, tokens in zip(pos, pos_tokens, strict=True):
        others = neg[np.abs(neg_tokens - tokens) <= 0.05 * tokens]
        assert len(others) >= 20
        wins.append(np.mean(others < score) + np.mean(others == score) / 2)
    assert LikeLength.of(pos_tokens, neg_tokens).auc(pos, neg) == pytest.approx(np.mean(wins))


def test_the_key_is_the_resampling_unit() -> None:
    pos, neg = np.array([[0.0] * 4, [1.0] * 4]), np.full((2, 30), 0.5)
    found = like_length_auc_over_keys(pos, neg, [300] * 4, [300] * 30)
    assert (found["per_key"], found["unit"], found["n"]) == ([0.0, 1.0], "key", [2])
    assert (found["low"], found["estimate"], found["high"]) == (0.0, 0.5, 1.0)


def test_length_alone_lowers_the_auc_of_a_scan() -> None:
    """Unmarked texts of 300 tokens among unmarked texts of 150-300: their means over units scatter less, so their
    largest view is smaller. No text has a common shift here, and without the bound p_scan <= 1 it is the same."""
    found = _simulated()
    assert found["all lengths"] < 0.47
    assert found["all lengths, no bound"] < 0.47
    assert found["all lengths, answers of mixed length"] == pytest.approx(0.5, abs=0.02)
    assert found["one size"] == pytest.approx(0.5, abs=0.02)
    assert found["like length"] == pytest.approx(0.5, abs=0.02)


def _simulated(keys: int = 20) -> dict[str, float]:
    """Averages over keys. Tokens are independent and nothing is marked; a key is a sign for every unit."""
    draw = np.random.default_rng(1)
    sizes = {"calibration": 1500, "heldout": 1500, "mixed": 400, "long": 400}
    tokens = {name: draw.integers(150, LONGEST + 1, n) for name, n in sizes.items()}
    tokens["long"][:] = LONGEST
    texts = {name: draw.normal(size=(n, LONGEST)) for name, n in sizes.items()}
    rows: dict[str, list[float]] = {}
    for _ in range(keys):
        signs = draw.choice([-1.0, 1.0], LONGEST // min(SIZES))
        views = {name: _views(texts[name], tokens[name], signs) for name in sizes}
        calibration = Calibration(views["calibration"], tuple(map(str, SIZES)))
        scans = {name: calibration.scan(views[name]) for name in ("heldout", "mixed", "long")}
        s_rob = {name: scan.s_rob for name, scan in scans.items()}
        unbounded = {name: -scan.p.min(axis=1) for name, scan in scans.items()}
        like = LikeLength.of(tokens["long"], tokens["heldout"])
        for name, value in {
            "all lengths": auc(s_rob["long"], s_rob["heldout"]),
            "all lengths, no bound": auc(unbounded["long"], unbounded["heldout"]),
            "all lengths, answers of mixed length": auc(s_rob["mixed"], s_rob["heldout"]),
            "one size": auc(views["long"][:, 13], views["heldout"][:, 13]),
            "like length": like.auc(s_rob["long"], s_rob["heldout"]),
        }.items():
            rows.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in rows.items()}


def _views(texts: Any, tokens: Any, signs: Any) -> Any:
    """[texts, sizes]: the mean over whole units of sign times normalised sum of tokens."""
    sums = np.concatenate([np.zeros((len(texts), 1)), np.cumsum(texts, axis=1)], axis=1)
    columns = []
    for size in SIZES:
        units = np.diff(sums[:, ::size], axis=1) / np.sqrt(size)
        counts = tokens // size
        units[np.arange(units.shape[1]) >= counts[:, None]] = 0.0
        columns.append(units @ signs[: units.shape[1]] / counts)
    return np.stack(columns, axis=1)
