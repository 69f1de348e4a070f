"""Whole units are drawn side by side under a decoding of their own, and one of them is committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from wmbench_block_best_of_k.config import BestOfKConfig
from wmbench_block_best_of_k.scheme import BlockBestOfK
from wmbench_pmark.config import PMarkConfig
from wmbench_pmark.scheme import PMark
from wmbench_semstamp.config import SemStampConfig
from wmbench_semstamp.keys import SemStampKey, bins_of
from wmbench_semstamp.scheme import SemStamp

from wmbench.runtime.backbone import Backbone
from wmbench.runtime.settings import Decoding
from wmbench.semantics.blocks import Completions, Proposer, block_decoding
from wmbench.testing import ToyEncoder, run_scheme, score_texts, toy_key, toy_samples
from wmbench.testing.harness import SHORT
from wmbench.types import Generation, SchemeContext

KEY = toy_key("blocks")
SETTINGS: dict[str, Any] = {"unit_size": 5, "candidates": 4, "block_temperature": 1.0, "scan_sizes": (5,)}


def context(backbone: Backbone) -> SchemeContext:
    return SchemeContext(backbone.codec, KEY, load_encoder=lambda name: ToyEncoder())


@pytest.mark.parametrize("setting", ["direction_seed", "sign_seed"])
def test_seeds_are_those_that_torch_takes(setting: str) -> None:
    with pytest.raises(ValidationError, match=setting):
        BestOfKConfig(**{setting: 2**64})


def best_of(k: int, backbone: Backbone, decoding: Decoding = SHORT) -> list[Generation]:
    scheme = BlockBestOfK(BestOfKConfig(**{**SETTINGS, "candidates": k}), context(backbone))
    return run_scheme(scheme, backbone, toy_samples(4), decoding)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Decoding(block_length=32, tokens_per_step=2), {"tokens_per_step": 2, "block_length": 5}),
        (Decoding(block_length=1), {"tokens_per_step": 1, "block_length": 1}),  # whole blocks in a unit are kept
        (Decoding(max_new_tokens=60, block_length=30, steps=20), {"tokens_per_step": 3, "steps": None}),
        (Decoding(schedule="origin", steps=64), {"schedule": "block", "tokens_per_step": 1}),
        (Decoding(schedule="threshold", block_length=32, block_origin="prompt"), {"schedule": "threshold"}),
    ],
)
def test_units_are_blocks_whatever_the_run_does(run: Decoding, expected: dict[str, Any]) -> None:
    found = block_decoding(run, 5, 0.9)
    assert (found.temperature, found.block_origin, found.positions) == (0.9, "answer", run.positions)
    assert {name: getattr(found, name) for name in expected} == expected


def test_one_step_is_one_unit_and_forwards_are_counted(tiny_full_backbone: Backbone) -> None:
    """Each unit: one forward shared by all completions, then those of the other steps of each."""
    one_by_one = SHORT.model_copy(update={"tokens_per_step": 1})
    for generation in best_of(3, tiny_full_backbone, one_by_one):
        assert generation.cost.steps == 4
        assert generation.cost.forward_rows == 4 * (1 + 3 * 4)


@pytest.mark.parametrize(
    "schedule", [{"schedule": "origin", "steps": 6, "tokens_per_step": None}, {"steps": 10, "tokens_per_step": None}]
)
def test_the_schedule_of_the_run_does_not_reach_into_units(
    tiny_full_backbone: Backbone, schedule: dict[str, Any]
) -> None:
    decoding = SHORT.model_copy(update={**schedule, "block_length": 10})
    assert all(generation.cost.steps == 4 for generation in best_of(2, tiny_full_backbone, decoding))


def test_more_completions_mark_more(tiny_full_backbone: Backbone) -> None:
    detector = BlockBestOfK(BestOfKConfig(**SETTINGS), context(tiny_full_backbone))
    means = []
    for k in (1, 8):
        texts = [generation.text for generation in best_of(k, tiny_full_backbone)]
        means.append(score_texts(detector, tiny_full_backbone.codec, texts, KEY).scores.mean())
    assert means[1] > means[0] + 0.1


@pytest.mark.parametrize("worded", [(2,), ()], ids=["one with words", "none with words"])
@pytest.mark.parametrize(("scheme", "config"), [(BlockBestOfK, BestOfKConfig), (PMark, PMarkConfig)])
def test_completions_without_words_are_the_last_resort(
    scheme: Any, config: Any, worded: tuple[int, ...], tiny_full_backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with words is taken whatever it scores; where there is none, the first."""
    describe, expected = Proposer._described, []

    def described(self: Proposer, *unit_and_ids: Any) -> Completions:
        found = describe(self, *unit_and_ids)
        expected.extend(found.ids[worded[0] if worded else 0].tolist())
        return replace(found, has_words=np.isin(np.arange(len(found)), worded))

    monkeypatch.setattr(Proposer, "_described", described)
    mark = scheme(config(**SETTINGS), context(tiny_full_backbone))
    (generation,) = run_scheme(mark, tiny_full_backbone, toy_samples(1))
    assert list(generation.token_ids) == expected


def test_semstamp_walks_along_valid_bins(tiny_full_backbone: Backbone) -> None:
    """With enough trials every unit lies in a bin that is valid after the one before, from the prompt on."""
    backbone, encoder = tiny_full_backbone, ToyEncoder()
    config = SemStampConfig(**{**SETTINGS, "candidates": 8}, margin=0.0)
    marking = SemStampKey.of(config, KEY, encoder.dimension)
    for generation in run_scheme(SemStamp(config, context(backbone)), backbone, toy_samples(3)):
        units = [generation.token_ids[at : at + 5] for at in range(0, len(generation.token_ids), 5)]
        texts = [generation.sample.prompt, *(text for ids in units if (text := backbone.codec.decode(ids)))]
        bins = bins_of(np.einsum("nd,cd->nc", encoder.encode(texts).astype(np.float64), marking.normals))
        assert marking.is_valid[bins[:-1], bins[1:]].all()


def test_semstamp_gives_up_after_its_trials(tiny_full_backbone: Backbone) -> None:
    """A margin that nothing keeps: the last completion with words is taken, and no more are drawn than allowed."""
    config = SemStampConfig(**SETTINGS, margin=0.99, trials=6)
    one_by_one = SHORT.model_copy(update={"tokens_per_step": 1, "max_new_tokens": 5})
    scheme = SemStamp(config, context(tiny_full_backbone))
    for generation in run_scheme(scheme, tiny_full_backbone, toy_samples(2), one_by_one):
        assert len(generation.token_ids) == 5
        assert generation.cost.forward_rows == 1 + 6 * 4
