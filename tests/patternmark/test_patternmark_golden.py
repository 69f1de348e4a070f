"""Golden vectors made by running the authors' code (tests/golden/patternmark_orderagnostic.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from wmbench_patternmark.config import PatternMarkConfig
from wmbench_patternmark.decode import PatternMark, favour
from wmbench_patternmark.detect import PatternDetector, pattern_windows
from wmbench_patternmark.keys import official_chain, token_colours
from wmbench_patternmark.null import null_tail

from wmbench.runtime.backbones.tiny import ToyCodec
from wmbench.types import Features, SchemeContext, TextContext

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "patternmark_orderagnostic.json").read_text()
)
OFFICIAL = PatternMarkConfig(prf="official")
SIZE: int = GOLDEN["partition"]["vocab"]


def test_partition() -> None:
    colours = token_colours(OFFICIAL, SIZE, None)
    assert colours.tolist() == GOLDEN["partition"]["color_of_token"]
    for colour, tokens in enumerate(GOLDEN["partition"]["color_lists"]):
        assert set(np.flatnonzero(colours == colour).tolist()) == set(tokens)


@pytest.mark.parametrize("colours", [2, 3, 5])
@pytest.mark.parametrize("size", [2, 7, 64, 1000])
def test_partition_of_any_vocabulary(size: int, colours: int) -> None:
    """Slices of V // l of torch's permutation; the last takes what is left, all of it if there are too few tokens."""
    config = OFFICIAL.model_copy(update={"colours": colours})
    permutation = torch.randperm(size, generator=torch.Generator().manual_seed(42)).tolist()
    found = token_colours(config, size, None)
    share = size // colours
    if share:
        for colour in range(colours):
            last = size if colour == colours - 1 else (colour + 1) * share
            assert set(np.flatnonzero(found == colour).tolist()) == set(permutation[colour * share : last])
    else:
        assert set(found.tolist()) == {colours - 1}


@pytest.mark.parametrize("case", GOLDEN["key_sequences_alternating"], ids=lambda case: f"seed {case['seed']}")
def test_alternating_keys(case: dict[str, Any]) -> None:
    published = OFFICIAL.model_copy(update={"transition_matrix": ((0.0, 0.5), (0.5, 0.0))})
    for config in (OFFICIAL, published):
        assert official_chain(config, 16, case["seed"]).tolist() == case["key_sequence"]
    standing = OFFICIAL.model_copy(update={"transition_matrix": ((1.0, 0.0), (0.0, 1.0))})
    assert official_chain(standing, 2, case["seed"]).tolist() == [case["initial_state"]] * 2


def test_keys_that_may_stay() -> None:
    config = PatternMarkConfig(transition_matrix=((0.2, 0.8), (0.8, 0.2)))
    assert official_chain(config, 40, 5).tolist() == GOLDEN["key_sequence_a11_0.2_seed5"]


def test_step() -> None:
    case = GOLDEN["step"]
    logits = torch.tensor(case["logits"])
    colours = torch.from_numpy(token_colours(OFFICIAL, SIZE, None).copy())
    found = favour(logits, colours, torch.tensor(case["key_sequence"], dtype=torch.int8), case["delta"])
    np.testing.assert_allclose(found.numpy(), case["watermarked"], atol=1e-6)
    assert torch.equal(found[:, SIZE:], logits[:, SIZE:]), "ids beyond the tokenizer get no bias"


@pytest.mark.parametrize("tokens", GOLDEN["null_distribution"])
def test_null_law(tokens: str) -> None:
    law = -np.diff(null_tail(int(tokens), OFFICIAL.patterns, 2), append=0.0)
    np.testing.assert_allclose(law, GOLDEN["null_distribution"][tokens], atol=1e-9)


def test_null_tail_of_300_tokens() -> None:
    np.testing.assert_allclose(null_tail(300, OFFICIAL.patterns, 2)[:80], GOLDEN["null_tail_n300_first80"], rtol=1e-6)


def test_the_variant_that_looks_at_the_last_window_too() -> None:
    """DMark's repository has a PatternMark with other colours and n - m + 1 windows: as if one more token followed."""
    golden = json.loads((Path(__file__).parents[1] / "golden" / "dmark_cpu_rng.json").read_text())["pattern_mark_hmac"]
    assert OFFICIAL.pattern_length == golden["pattern_length"]
    law = -np.diff(null_tail(25, OFFICIAL.patterns, 2), append=0.0)
    np.testing.assert_allclose(law, golden["null_n24"], atol=1e-9)
    colours = np.array(golden["bucket_of_token"], dtype=np.int8)
    for case in golden["detect"]:
        ids = np.array([*case["ids"], 0])
        tail = null_tail(len(ids), OFFICIAL.patterns, 2)
        count = len(pattern_windows(ids, colours, OFFICIAL))
        assert (count, len(tail) - 1) == (case["count"], case["support"])
        np.testing.assert_allclose(tail[count], case["p"], rtol=1e-6)


@pytest.mark.parametrize("case", GOLDEN["detect"], ids=lambda case: f"{case['count']} patterns")
def test_detection(case: dict[str, Any]) -> None:
    ids, colours = np.array(case["ids"]), token_colours(OFFICIAL, SIZE, None)
    assert colours[ids].tolist() == case["colors"]
    assert len(pattern_windows(ids, colours, OFFICIAL)) == case["count"]
    for kind in (PatternDetector, PatternMark):
        detector = kind(OFFICIAL.model_copy(update={"p_value": "exact"}), SchemeContext(ToyCodec(SIZE)))
        views = detector.score(Features.pack([ids.astype(np.int32)], [len(ids)]), None, TextContext())
        (verdict,) = detector.detect(views, TextContext()) or []
        np.testing.assert_allclose(verdict.p_value, case["p_value"], rtol=1e-6)
