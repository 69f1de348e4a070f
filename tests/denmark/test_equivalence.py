"""The accelerated decoder writes exactly the tokens of the plain one, and pays for exactly what it must."""

from __future__ import annotations

from typing import Any

import pytest
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.scheme import DenMark

from tests.denmark.reference import PlainRow, Settings
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.mini import MiniBackbone
from wmbench.runtime.backbones.mini_settings import MiniConfig
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.runtime.settings import Decoding
from wmbench.semantics.plugin import lab_encoder
from wmbench.testing import ToyEncoder, run_scheme, toy_key
from wmbench.types import Encoder, Generation, Sample, SchemeContext

NEW_TOKENS = 12  # units of 5, 5 and 2
KEY = toy_key("equivalence")
SAMPLES = [Sample(f"s{i}", "w5 w6 w7 " * (1 + 2 * i)) for i in range(4)]
GEOMETRIES = {
    "full": TinyConfig(layers=1, attention="full"),
    "block": TinyConfig(layers=1, attention="block", attention_block=5),
    "unit straddles blocks": TinyConfig(layers=1, attention="block", attention_block=4),
    "shifted": TinyConfig(layers=1, attention="full", shift=1),
}


def generated(
    backbone: Backbone, decoding: Decoding, batch_size: int, encoder: Encoder | None = None, **settings: Any
) -> list[Generation]:
    config = DenMarkConfig(unit_size=5, candidates=4, **settings)
    scheme = DenMark(config, SchemeContext(backbone.codec, KEY, lambda name: encoder or ToyEncoder()))
    return run_scheme(scheme, backbone, SAMPLES, decoding, batch_size=batch_size)


def plain_rows(backbone: TinyBackbone, settings: Settings) -> list[PlainRow]:
    return [PlainRow(backbone, backbone.codec.encode_prompt(s.prompt), s.id, KEY, settings) for s in SAMPLES]


def assert_same_tokens(rows: list[PlainRow], generations: list[Generation]) -> None:
    assert [list(g.token_ids) for g in generations] == [row.canvas[row.start :].tolist() for row in rows]


@pytest.mark.parametrize("positions", [1, 2, 4, 8])
@pytest.mark.parametrize("geometry", ["full", "block", "unit straddles blocks"])
def test_unit_by_unit_equals_the_plain_decoder(geometry: str, positions: int) -> None:
    backbone = TinyBackbone(GEOMETRIES[geometry])
    rows = plain_rows(backbone, Settings(positions=positions))
    for row in rows:
        row.decode_unit_by_unit()
    # The block length of the run does not matter: one unit, several, none in particular.
    for batch_size, block_length in ((1, 5), (4, 5), (4, 8), (4, None)):
        decoding = Decoding(max_new_tokens=NEW_TOKENS, block_length=block_length)
        done = generated(backbone, decoding, batch_size, positions_per_candidate=positions)
        assert_same_tokens(rows, done)
        if geometry != "unit straddles blocks" and block_length == 5:
            assert [g.cost.forward_rows for g in done] == [row.needed for row in rows]


@pytest.mark.parametrize("positions", [1, 2, 4, 8])
@pytest.mark.parametrize("geometry", ["full", "block", "shifted"])
def test_several_active_units_equal_the_plain_decoder(geometry: str, positions: int) -> None:
    backbone = TinyBackbone(GEOMETRIES[geometry])
    rows = plain_rows(backbone, Settings(positions=positions))
    for row in rows:
        row.decode_bernoulli(steps=6)
    decoding = Decoding(max_new_tokens=NEW_TOKENS, schedule="origin", steps=6)
    for batch_size in (1, 4):
        done = generated(backbone, decoding, batch_size, positions_per_candidate=positions)
        assert_same_tokens(rows, done)
        if geometry != "block":
            assert [g.cost.forward_rows for g in done] == [row.needed for row in rows]


OPTIONS: dict[str, tuple[Settings, dict[str, Any]]] = {
    "same positions": (Settings(same_positions=True), {"same_positions": True}),
    "same positions, several": (Settings(same_positions=True, positions=3), {"same_positions": True}),
    "low confidence": (Settings(positions=2, low_confidence=True), {"position_policy": "low_confidence"}),
    "same positions, low confidence": (
        Settings(same_positions=True, positions=2, low_confidence=True),
        {"same_positions": True, "position_policy": "low_confidence"},
    ),
    "own random numbers": (Settings(common=False), {"common_random_numbers": False}),
}


@pytest.mark.parametrize("eos", ["continue", "ban"])
@pytest.mark.parametrize("option", OPTIONS)
def test_options_equal_the_plain_decoder(option: str, eos: Any) -> None:
    settings, fields = OPTIONS[option]
    backbone, plain = TinyBackbone(GEOMETRIES["full"]), TinyBackbone(GEOMETRIES["full"])
    if eos == "ban":
        plain.banned_ids = [*plain.banned_ids, *plain.eos_ids]
    fields = {**fields, "positions_per_candidate": settings.positions}
    rows = plain_rows(plain, settings)
    for row in rows:
        row.decode_unit_by_unit()
    decoding = Decoding(max_new_tokens=NEW_TOKENS, block_length=5, eos=eos)
    assert_same_tokens(rows, generated(backbone, decoding, 4, **fields))
    rows = plain_rows(plain, settings)
    for row in rows:
        row.decode_bernoulli(steps=6)
    decoding = Decoding(max_new_tokens=NEW_TOKENS, schedule="origin", steps=6, eos=eos)
    assert_same_tokens(rows, generated(backbone, decoding, 4, **fields))


@pytest.mark.parametrize("attention", ["block", "full"])
def test_the_embedded_model_and_encoder_equal_the_plain_decoder(attention: Any) -> None:
    """At the paper's settings `benchmarks/denmark_cost.py` compares them."""
    backbone, encoder = MiniBackbone(MiniConfig(attention=attention)), lab_encoder()
    decoding = Decoding(max_new_tokens=7, block_length=5)
    done = generated(backbone, decoding, 4, encoder, rollouts=2)
    for sample, generation in list(zip(SAMPLES, done, strict=True))[:2]:
        ids = backbone.codec.encode_prompt(sample.prompt)
        row = PlainRow(backbone, ids, sample.id, KEY, Settings(mean_rollouts=2), new_tokens=7, encoder=encoder)
        row.decode_unit_by_unit()
        assert_same_tokens([row], [generation])
