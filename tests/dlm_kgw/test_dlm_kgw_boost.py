"""Boosts against autograd of the published energy, and in the runtime against the whole canvas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from published import Published
from wmbench_dlm_kgw.config import DlmKgwConfig
from wmbench_dlm_kgw.decode import DlmKgw
from wmbench_dlm_kgw.green import green_matrix
from wmbench_dlm_kgw.neighbourhood import Neighbourhood, neighbourhood, reach
from wmbench_dlm_kgw.several import SeveralContexts
from wmbench_dlm_kgw.single import SingleContext, top_k

from wmbench.errors import ConfigError
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.tiny import ToyCodec
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Cells, Step
from wmbench.testing import run_scheme, toy_key, toy_samples
from wmbench.testing.harness import SHORT
from wmbench.types import Commit, SchemeContext

ONE: list[dict[str, Any]] = [
    {},
    {"topk": 5},
    {"convolution_kernel": (2,)},
    {"seeding_scheme": "minhash", "topk": 7},
    {"booster_only": True},
    {"greenify_only": True},
    {"n_iter": 3},
    {"enforce_kl": True, "delta": 0.3},
    {"enforce_kl": True, "delta": 0.3, "n_iter": 2, "topk": 6},
    {"greenlist_type": "lognormal", "topk": 7, "n_iter": 2},
]
NEGATIVE: list[dict[str, Any]] = [
    {"greenlist_type": "gaussian", "topk": 7, "n_iter": 3},
    {"greenlist_type": "gaussian", "convolution_kernel": (1,), "enforce_kl": True, "delta": 0.4},
]
"""Boosts that may be negative, and move tokens out of the top k."""
SEVERAL: list[dict[str, Any]] = [
    {"convolution_kernel": (-1, 1)},
    {"convolution_kernel": (-2, -1), "topk": 9},
    {"convolution_kernel": (-3, -1, 2)},
    {"convolution_kernel": (-2, -1), "seeding_scheme": "minhash", "topk": 6},
    {"convolution_kernel": (-1, 1, 2), "seeding_scheme": "minhash", "n_iter": 2},
    {"convolution_kernel": (-2, -1), "booster_only": True},
    {"convolution_kernel": (-2, -1), "greenify_only": True},
    {"convolution_kernel": (-1, 1), "enforce_kl": True, "delta": 0.2},
]
KINDS = [*((s, SingleContext) for s in ONE), *((s, SeveralContexts) for s in [*ONE, *NEGATIVE, *SEVERAL])]


@pytest.mark.parametrize(("settings", "booster"), KINDS, ids=lambda value: str(getattr(value, "__name__", value)))
@pytest.mark.parametrize("size", [11, 29])
def test_boost_is_the_published_gradient(settings: dict[str, Any], booster: Any, size: int) -> None:
    config, temperature = DlmKgwConfig(**{"prf": "official", **settings}), 0.7
    generator = np.random.default_rng(size)
    ids, is_masked = generator.integers(0, size, 14), generator.random(14) < 0.6
    logits = torch.from_numpy(generator.standard_normal((14, size))).float()
    green = green_matrix(config, size, None)
    expected = Published(config, size, green).boost(
        torch.from_numpy(ids), torch.from_numpy(is_masked), logits, temperature
    )
    columns = np.flatnonzero(is_masked)
    cells = Neighbourhood.of_canvas(ids, is_masked, columns)
    found = booster(config, size, green).boosted(cells, logits[columns], temperature) - logits[columns]
    np.testing.assert_allclose(found.numpy(), expected[columns].numpy(), atol=2e-6)
    assert found.abs().max() > 0.1


@pytest.mark.parametrize("booster", [SingleContext, SeveralContexts])
def test_a_bound_on_the_divergence_is_met_as_closely(booster: Any) -> None:
    """The search for the strength magnifies what the laws of the cells are off by."""
    size, config = 64, DlmKgwConfig(prf="official", delta=0.5, enforce_kl=True)
    green, worst = green_matrix(config, size, None), 0.0
    for seed in range(12):
        generator = np.random.default_rng(seed)
        ids, is_masked = generator.integers(0, size, 24), generator.random(24) < 0.5
        logits = torch.from_numpy(0.9 * generator.standard_normal((24, size))).float()
        expected = Published(config, size, green).boost(torch.from_numpy(ids), torch.from_numpy(is_masked), logits, 1.0)
        columns = np.flatnonzero(is_masked)
        cells = Neighbourhood.of_canvas(ids, is_masked, columns)
        found = booster(config, size, green).boosted(cells, logits[columns], 1.0) - logits[columns]
        worst = max(worst, float((found - expected[columns]).abs().max()))
    assert worst < 1e-6


@pytest.mark.parametrize("booster", [SingleContext, SeveralContexts])
def test_unknown_ids_are_uniform_contexts(booster: Any) -> None:
    """With all tokens in the top k the published rule leaves nothing arbitrary: the mean colour over all contexts."""
    size, config = 11, DlmKgwConfig(prf="official", topk=11, delta=2.0)
    green = green_matrix(config, size, None)
    cells = Neighbourhood.of_canvas(np.array([size + 3, 0]), np.array([False, True]), np.array([1]))
    found = booster(config, size, green).boosted(cells, torch.zeros(1, size), 1.0)
    everything = np.arange(size)
    np.testing.assert_allclose(found[0], green(everything[:, None], everything).mean(0), atol=1e-6)


@pytest.mark.parametrize("width", [40, 128, 12_929, 20_000])
def test_two_stage_top_k(width: int) -> None:
    logits = torch.randn(5, width, generator=torch.Generator().manual_seed(width))
    assert torch.equal(logits.gather(1, top_k(logits, 50)), logits.topk(min(50, width)).values)


def test_reach() -> None:
    assert reach((-1,), 1).tolist() == [-1, 0, 1]
    assert reach((-2, -1), 1).tolist() == [-2, -1, 0, 1, 2]
    assert reach((-1,), 3).tolist() == [-3, -2, -1, 0, 1, 2, 3]


# --- in the runtime ------------------------------------------------------------------------------------------------


def scheme(backbone: Backbone, **settings: Any) -> DlmKgw:
    return DlmKgw(DlmKgwConfig(**settings), SchemeContext(backbone.codec, toy_key()))


@pytest.mark.parametrize(
    "settings",
    [{}, {"n_iter": 2}, {"convolution_kernel": (-1, 1)}, {"convolution_kernel": (-2, -1), "n_iter": 2}],
    ids=str,
)
@pytest.mark.parametrize("attention", ["full", "block"])
@pytest.mark.parametrize("positions", ["random", "low_confidence"])
def test_neighbours_suffice(
    settings: dict[str, Any], attention: str, positions: str, request: pytest.FixtureRequest
) -> None:
    """The cells asked for give the same boosts as all cells of the canvas that the step can see."""
    backbone: Backbone = request.getfixturevalue(f"tiny_{attention}_backbone")
    mark = scheme(backbone, delta=6.0, **settings)
    compared = 0

    def decide(step: Step) -> Commit:
        nonlocal compared
        (row,) = step.rows
        near = neighbourhood(step, mark.config.convolution_kernel, mark.config.n_iter)
        found = mark.booster.boosted(near, step.logits(near.masked_cells), 1.0)
        is_masked = np.isin(np.arange(row.length), row.masked)
        known = np.flatnonzero(~is_masked | (np.arange(row.length) < step.visible_end(0)))
        masked = np.flatnonzero(is_masked[known])
        everything = Neighbourhood(known, row.canvas[known], masked, np.searchsorted(known, step.open.columns))
        columns = known[masked]
        whole = mark.booster.boosted(everything, step.logits(Cells(np.zeros_like(columns), columns)), 1.0)
        torch.testing.assert_close(found, whole, atol=1e-5, rtol=1e-5)
        compared += len(found)
        return step.commit(found)

    decoding = SHORT.model_copy(update={"positions": positions})
    list(decode(toy_samples(2), make_engine(backbone, decoding), decoding, decide, batch_size=1))
    assert compared >= 40


def test_prompt_is_context_of_the_first_token(tiny_full_backbone: Backbone) -> None:
    seen = []

    def decide(step: Step) -> Commit:
        near = neighbourhood(step, (-1,), 1)
        for r, row in enumerate(step.rows):
            if row.start in step.open.columns[step.open.rows == r]:
                left = near.at(-1, near.open[(step.open.rows == r) & (step.open.columns == row.start)])
                seen.append(near.tokens[left[0]] == row.canvas[row.start - 1])
        return step.commit()

    list(decode(toy_samples(3), make_engine(tiny_full_backbone, SHORT), SHORT, decide))
    assert len(seen) == 3
    assert all(seen)


def test_head_rows(tiny_full_backbone: Backbone) -> None:
    """At random positions only the opened cell and its masked neighbours need logits, and no forward is added."""
    decoding = SHORT.model_copy(update={"tokens_per_step": 1})
    (clean,) = decode(toy_samples(1), make_engine(tiny_full_backbone, decoding), decoding)
    (marked,) = run_scheme(scheme(tiny_full_backbone), tiny_full_backbone, toy_samples(1), decoding)
    assert marked.cost.forward_tokens == clean.cost.forward_tokens
    assert clean.cost.head_rows == 20
    assert 20 < marked.cost.head_rows <= 2 * 20  # a cell is the neighbour of at most two; half of them are filled first


def test_block_causal_neighbour_costs_no_forward(tiny_block_backbone: Backbone) -> None:
    decoding = SHORT.model_copy(update={"tokens_per_step": 1})
    (clean,) = decode(toy_samples(1), make_engine(tiny_block_backbone, decoding), decoding)
    (marked,) = run_scheme(scheme(tiny_block_backbone), tiny_block_backbone, toy_samples(1), decoding)
    assert marked.cost.forward_tokens == clean.cost.forward_tokens


def test_greedy_decoding_is_refused(tiny_full_backbone: Backbone) -> None:
    greedy: Decoding = SHORT.model_copy(update={"temperature": 0.0})
    with pytest.raises(ConfigError, match="greedily"):
        run_scheme(scheme(tiny_full_backbone), tiny_full_backbone, toy_samples(1), greedy)


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match="exclude each other"):
        DlmKgwConfig(booster_only=True, greenify_only=True)
    with pytest.raises(ValueError, match="twice"):
        DlmKgwConfig(convolution_kernel=(-1, -1))
    with pytest.raises(ValueError, match="finite number"):
        DlmKgwConfig(delta=float("inf"))


def test_kl_budget_is_met() -> None:
    size, temperature = 29, 0.5
    config = DlmKgwConfig(prf="official", enforce_kl=True, delta=0.4)
    logits = torch.randn(12, size, generator=torch.Generator().manual_seed(0))
    cells = Neighbourhood.of_canvas(np.zeros(12, np.int64), np.ones(12, dtype=bool), np.arange(12))
    boosted = SingleContext(config, size, green_matrix(config, size, None)).boosted(cells, logits, temperature)
    q, p = ((x.double() / temperature).softmax(-1) for x in (boosted, logits))
    divergence = (q * (q / p).log()).sum(-1)
    assert divergence.max() <= 0.4 + 1e-6
    assert divergence.min() > 0.39


def test_codec_size_rules() -> None:
    """Colours are those of the tokenizer's size, whatever the width of the logits."""
    context = replace(SchemeContext(ToyCodec(50)), key=toy_key())
    assert DlmKgw(DlmKgwConfig(), context).booster.size == 50


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({}, SingleContext),
        ({"greenlist_type": "gaussian"}, SeveralContexts),
        ({"convolution_kernel": (-2, -1)}, SeveralContexts),
    ],
    ids=str,
)
def test_closed_form_where_it_holds(settings: dict[str, Any], kind: type) -> None:
    assert type(DlmKgw(DlmKgwConfig(**settings), SchemeContext(ToyCodec(50), toy_key())).booster) is kind
