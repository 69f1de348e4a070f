"""The shipped encoder: small enough, made for the lab's tokenizer, and better than a bag of words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wmbench.lab.training.encoder_figures import measure
from wmbench.lab.training.pairs import pairs
from wmbench.lab.training.tokenizer import PROMPT_LAYOUT
from wmbench.runtime.codec import TokenizerCodec
from wmbench.semantics.mini_encoder import MiniEncoder
from wmbench.semantics.plugin import LAB_WEIGHTS, lab_encoder, untrained_lab_encoder
from wmbench.semantics.units import unit_counts


@pytest.fixture(scope="module")
def encoder() -> MiniEncoder:
    encoder = lab_encoder()
    assert isinstance(encoder, MiniEncoder)
    return encoder


def test_size_and_header(encoder: MiniEncoder) -> None:
    from safetensors import safe_open

    path = LAB_WEIGHTS / "mini-encoder.safetensors"
    assert path.stat().st_size <= 6_000_000
    with safe_open(path, framework="numpy") as file:
        facts = file.metadata()
    assert facts["licence"] == "Apache-2.0"
    assert json.loads(facts["recipe"])["temperature"] == 0.05
    assert encoder.dimension == 256


def test_it_shares_the_lab_tokenizer(encoder: MiniEncoder) -> None:
    assert encoder.shares_tokenizer(TokenizerCodec.from_file(LAB_WEIGHTS / "tokenizer.json", PROMPT_LAYOUT))


def test_meaning_counts_more_than_words(encoder: MiniEncoder) -> None:
    figures = measure(encoder.encode, encoder.codec, candidates=32)
    assert figures.same_prompt < 0.5
    for name, attack in figures.attacks.items():
        assert attack.counterpart > figures.same_prompt + 0.2, name
        assert attack.retrieval > 0.7, name


def test_one_scan_costs_less_than_half_a_gigaflop(encoder: MiniEncoder) -> None:
    weights = encoder._weights
    per_unit = 2 * (weights.inner.size + weights.outer.size)
    units = int(unit_counts(225, range(12, 38)).sum())
    assert units == pytest.approx(278, abs=3)
    assert units * per_unit < 0.5e9


def test_the_card_is_there() -> None:
    assert Path(LAB_WEIGHTS / "mini-encoder.md").is_file()


def test_untrained_it_sees_less_in_a_paraphrase(encoder: MiniEncoder) -> None:
    untrained = untrained_lab_encoder()
    assert untrained.fingerprint == untrained_lab_encoder().fingerprint != encoder.fingerprint
    assert untrained.dimension == encoder.dimension
    assert isinstance(untrained, MiniEncoder)
    assert untrained.shares_tokenizer(encoder.codec)
    said = list(pairs(encoder.codec, 100, seed=7))
    tuned, untuned = (
        (each.encode([p.anchor for p in said]) * each.encode([p.positive for p in said])).sum(axis=1).mean()
        for each in (encoder, untrained)
    )
    assert tuned > untuned + 0.2
