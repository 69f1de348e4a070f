"""Golden vectors made by running the authors' code (tests/golden/dlm_kgw_*.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from wmbench_dlm_kgw.config import DlmKgwConfig
from wmbench_dlm_kgw.detect import GreenDetector, GreenViews, scored_positions
from wmbench_dlm_kgw.green import context_hashes, green_matrix, official_words, signed_splitmix
from wmbench_dlm_kgw.neighbourhood import Neighbourhood
from wmbench_dlm_kgw.several import SeveralContexts
from wmbench_dlm_kgw.single import SingleContext

from wmbench.runtime.backbones.tiny import ToyCodec
from wmbench.types import Features, SchemeContext, TextContext

GOLDEN = Path(__file__).parents[1] / "golden"


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((GOLDEN / f"dlm_kgw_{name}.json").read_text())["cases"]
    return found


@pytest.mark.parametrize("case", cases("prf"), ids=lambda case: f"V={case['vocab']}, context {case['kernel_size']}")
def test_colours(case: dict[str, Any]) -> None:
    stride, hashes, tokens = case["kernel_size"] * case["vocab"], np.array(case["hash"]), np.array(case["token"])
    assert stride == case["idx_offset"]
    assert (hashes + tokens * stride + case["seed"]).tolist() == case["key"]
    assert list(map(str, signed_splitmix(np.array(case["key"])).tolist())) == case["splitmix_int64"]
    uniforms = official_words(hashes, tokens, stride) / 2**53
    np.testing.assert_allclose(uniforms, case["uniform"], rtol=1e-8)
    config = DlmKgwConfig(prf="official", gamma=case["gamma"], convolution_kernel=tuple(range(-case["kernel_size"], 0)))
    gaussian, lognormal = (
        green_matrix(config.model_copy(update={"greenlist_type": kind}), case["vocab"], None)(hashes, tokens)
        for kind in ("gaussian", "lognormal")
    )
    np.testing.assert_allclose(gaussian, case["gaussian"], atol=1e-6)
    np.testing.assert_allclose(lognormal, np.exp(case["gaussian"]), rtol=1e-6)
    green = green_matrix(config, case["vocab"], None)
    assert green(hashes, tokens).astype(int).tolist() == case["green"]
    if matrix := case["full_green_matrix_rows_hash_cols_token"]:
        everything = np.arange(case["vocab"])
        assert green(everything[:, None], everything[None, :]).astype(int).tolist() == matrix


def test_the_mixer_of_aar() -> None:
    """Another scheme of the same repository draws from the same mixer, with another constant: 58 more pairs."""
    golden = json.loads((GOLDEN / "aar_prf.json").read_text())
    ids, offsets = np.array(golden["ids"]), golden["kernel"]
    tokens = ids[-min(offsets) :]
    hashes = sum(ids[-min(offsets) + offset :][: len(tokens)] for offset in offsets)
    stride, salt = len(offsets) * golden["effective_vocab"], 42
    words = official_words(hashes + golden["prf_seed"] - salt, tokens, stride)
    np.testing.assert_allclose(words / 2**53, golden["uniforms"], rtol=1e-7)


def step_config(params: dict[str, Any]) -> DlmKgwConfig:
    names = {name: value for name, value in params.items() if name != "greenlist_params"}
    return DlmKgwConfig(prf="official", **params["greenlist_params"], **names)


STEPS = [
    pytest.param(case, booster, id=f"{case['name']}-{booster.__name__}")
    for case in cases("step")
    for booster in (SingleContext, SeveralContexts)
    if booster is SeveralContexts or len(step_config(case["params"]).convolution_kernel) == 1
]


@pytest.mark.parametrize(("case", "booster"), STEPS)
def test_step(case: dict[str, Any], booster: type[SingleContext | SeveralContexts]) -> None:
    config, size = step_config(case["params"]), case["vocab"]
    is_masked = np.array(case["masked"], dtype=bool)
    columns = np.flatnonzero(is_masked)
    logits = torch.tensor(case["logits"], dtype=torch.float32)[torch.from_numpy(is_masked)]
    cells = Neighbourhood.of_canvas(np.array(case["input_ids"]), is_masked, columns)
    boosted = booster(config, size, green_matrix(config, size, None)).boosted(cells, logits, case["temperature"])
    found = (boosted - logits).numpy()
    expected = np.array([case["booster_masked_positions"][str(column)] for column in columns])
    # Among tokens below the noise of its Fourier transform the published code boosts at random.
    comparable = (logits[:, :size] / case["temperature"]).softmax(-1).numpy() > 1e-6
    assert np.abs(found - expected)[:, :size][comparable].max() < 2e-6
    assert not found[:, size:].any(), "ids beyond the tokenizer are never boosted"


def plain_word(key: int) -> int:
    """The published mixer in Python's integers, wrapped to 64 bits by hand; a signed shift copies the sign."""

    def signed(value: int) -> int:
        return (value + 2**63) % 2**64 - 2**63

    z = signed(key + 0x9E3779B97F4A7C15)
    z = signed((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9)
    z = signed((z ^ (z >> 27)) * 0x94D049BB133111EB)
    return signed(z ^ (z >> 31)) % 2**53


@pytest.mark.parametrize("kernel", [(-1,), (1,), (-2, -1), (-4, -3, -2, -1)], ids=str)
@pytest.mark.parametrize("size", [1, 2, 61, 32_000, 151_665, 262_144])
def test_colours_of_any_vocabulary_and_context(size: int, kernel: tuple[int, ...]) -> None:
    rng = np.random.default_rng(size)
    hashes = np.r_[0, len(kernel) * (size - 1), rng.integers(len(kernel) * size, size=20)]
    tokens = np.r_[size - 1, size - 1, rng.integers(size, size=20)]
    words = [plain_word(h + v * len(kernel) * size + 42) for h, v in zip(hashes.tolist(), tokens.tolist(), strict=True)]
    for gamma in (0.01, 0.25, 0.3, 0.5, 0.9):
        config = DlmKgwConfig(prf="official", gamma=gamma, convolution_kernel=kernel)
        expected = [word / 2**53 < gamma for word in words]
        assert green_matrix(config, size, None)(hashes, tokens).tolist() == expected


@pytest.mark.parametrize("case", cases("detect"), ids=lambda case: f"{len(case['ids'])} ids, {case['kernel']}")
def test_detection(case: dict[str, Any]) -> None:
    config = DlmKgwConfig(prf="official", gamma=case["gamma"], convolution_kernel=tuple(case["kernel"]))
    ids, size = np.array(case["ids"]), case["vocab"]
    positions, contexts = scored_positions(ids, config.convolution_kernel)
    first = max(0, -min(case["kernel"]))
    assert (positions - first).tolist() == np.flatnonzero(case["keep_mask"]).tolist()
    colours = green_matrix(config, size, None)(context_hashes(contexts, config, size), ids[positions])
    assert colours.astype(int).tolist() == np.array(case["token_color"])[np.array(case["keep_mask"]) > 0].tolist()
    # Repeated tuples are coloured by the published code, too, and not counted.
    every = np.arange(first, len(ids) - max(0, *case["kernel"]))
    everywhere = context_hashes(ids[every[:, None] + np.array(case["kernel"])], config, size)
    assert green_matrix(config, size, None)(everywhere, ids[every]).astype(int).tolist() == case["token_color"]

    features = Features.pack([ids.astype(np.int32)], [len(ids)])
    detector = GreenDetector(config, SchemeContext(ToyCodec(size)))
    views = detector.score(features, None, TextContext())
    assert isinstance(views, GreenViews)
    assert views.green is not None
    assert views.scored is not None
    assert (views.green[0], views.scored[0]) == (case["n_green"], case["n_scored"])
    ratio = views.green[0] / views.scored[0]
    assert ratio == pytest.approx(case["official_z_score_field_is_ratio"], abs=1e-8)
    np.testing.assert_allclose(views.scores[0, 0], case["normal_z"], rtol=1e-6)
    exact = GreenDetector(config.model_copy(update={"p_value": "exact"}), SchemeContext(ToyCodec(size)))
    (verdict,) = exact.detect(exact.score(features, None, TextContext()), TextContext()) or []
    np.testing.assert_allclose(verdict.p_value, case["p_value"], rtol=1e-6)
