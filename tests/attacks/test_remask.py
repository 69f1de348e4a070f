"""Re-masking: refills by the clean backbone."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.attacks.helpers import attack_all, toy_context
from wmbench.runtime.backbone import Backbone
from wmbench.testing.toys import ToyEncoder, tiny_backbone, toy_texts
from wmbench.types import AttackContext, Attacked, AttackInput

BACKBONES = {"full": tiny_backbone("full"), "block": tiny_backbone("block")}


def context(backbone: Backbone, seed: int = 0) -> AttackContext:
    return AttackContext(seed, backbone.codec, lambda name: ToyEncoder(), lambda name: backbone)


def remask(text: str, attention: str = "full", seed: int = 0, **given: object) -> Attacked:
    item = AttackInput("a", text, "w5 w6 w7")
    return attack_all("remask", [item], context(BACKBONES[attention], seed), tokens_per_step=4, **given)[0]


@settings(max_examples=10, deadline=None)
@given(st.integers(4, 60), st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from(["full", "block"]), st.integers(0, 9))
def test_only_masked_tokens_change(length: int, ratio: float, attention: str, seed: int) -> None:
    text = toy_texts([length], seed)[0]
    result = remask(text, attention, seed, ratio=ratio)
    assert result.details["tokens"] == length
    assert result.details["masked"] == round(ratio * length)
    assert result.details["lossless"]
    if result.text is None:
        assert result.details["changed"] == 0
        return
    differing = sum(a != b for a, b in zip(text.split(), result.text.split(), strict=True))
    assert 0 < differing == result.details["changed"] <= result.details["masked"]


def test_the_same_text_in_other_tokens_is_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a tokenizer has `th e` for `t he`: the detector reads the text."""
    text = toy_texts([20])[0]
    monkeypatch.setattr(BACKBONES["full"].codec, "decode", lambda ids: text)
    result = remask(text, ratio=1.0)
    assert result.details["changed"] > 0
    assert result.text is None


def test_long_texts_are_refilled_in_stretches() -> None:
    text = toy_texts([70])[0]
    result = remask(text, ratio=0.5, window=32)
    assert result.text is not None
    assert len(result.text.split()) == 70
    changed = [i for i, pair in enumerate(zip(text.split(), result.text.split(), strict=True)) if pair[0] != pair[1]]
    assert changed[0] < 32 < changed[-1]


def test_greedy_refills_are_what_the_model_finds_likeliest() -> None:
    from wmbench.runtime.infill import Canvas, likeliest_tokens

    backbone = BACKBONES["full"]
    text = toy_texts([20])[0]
    result = remask(text, ratio=0.05, temperature=0.0)
    ids, after = backbone.codec.encode(text), backbone.codec.encode(result.text or text)
    places = [i for i in range(20) if ids[i] != after[i]]
    assert len(places) == 1
    canvas = Canvas("x", backbone.codec.encode_prompt("w5 w6 w7"), ids, places)
    assert likeliest_tokens(backbone, [canvas], 1)[0].tolist() == [[after[places[0]]]]


def test_the_likeliest_tokens_may_be_filled_in() -> None:
    from wmbench.runtime.infill import Canvas, likeliest_tokens

    backbone = tiny_backbone()
    whole, holed = likeliest_tokens(backbone, [Canvas("a", [5], [7], []), Canvas("b", [5], [7, 8], [1])], 1000)
    allowed = set(range(backbone.vocab_size)) - {*backbone.banned_ids, *backbone.eos_ids}
    assert whole.shape == (0, len(allowed))
    assert set(holed[0].tolist()) == allowed


def test_units_that_move_too_far_get_their_tokens_back() -> None:
    text = toy_texts([50])[0]
    free = remask(text, ratio=0.5)
    bound = remask(text, ratio=0.5, min_similarity=0.9, unit=10)
    assert free.details["units_given_back"] == 0 < bound.details["units_given_back"]
    assert bound.details["changed"] < free.details["changed"]
    encoder = ToyEncoder()
    words, new = text.split(), (bound.text or text).split()
    for at in range(0, 50, 10):
        pair = encoder.encode([" ".join(words[at : at + 10]), " ".join(new[at : at + 10])])
        assert float(pair[0] @ pair[1]) >= 0.9 - 1e-6
    impossible = remask(text, ratio=0.5, min_similarity=1.0, unit=50)
    assert impossible.text is None


def test_company_and_batches_do_not_matter() -> None:
    items = [AttackInput(f"id-{i}", text, "w9") for i, text in enumerate(toy_texts([12, 40, 25, 33]))]
    whole = attack_all("remask", items, toy_context(), ratio=0.3)
    assert [attack_all("remask", [item], toy_context(), ratio=0.3)[0] for item in items] == whole


@pytest.mark.parametrize("attention", ["full", "block"])
def test_refilling_everything_is_clean_decoding(attention: str) -> None:
    """An empty canvas refilled is what the one loop writes: there is no second loop."""
    from wmbench.runtime.infill import Canvas, refill
    from wmbench.runtime.loop import decode, make_engine
    from wmbench.runtime.settings import Decoding
    from wmbench.types import Sample

    backbone = BACKBONES[attention]
    block = backbone.attention.block_length
    decoding = Decoding(max_new_tokens=24, block_length=block, eos="ban", temperature=0.7)
    expected = next(decode([Sample("s", "w5 w6")], make_engine(backbone, decoding), decoding, seed=3))
    canvas = Canvas("s", backbone.codec.encode_prompt("w5 w6"), [0] * 24, range(24))
    assert refill(backbone, [canvas], seed=3, temperature=0.7) == [list(expected.token_ids)]
