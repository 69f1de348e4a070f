"""The authors' rollout noise: seeds and numbers of their code, and the law of what is drawn with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from wmbench_denmark.published_noise import gumbel_max, noise_seed, step_seed, uniforms

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "golden" / "denmark_generation_micro.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("case", GOLDEN["noise_seeds"], ids=lambda case: f"seed {case['noise_seed']}")
def test_seeds_and_numbers(case: dict[str, Any]) -> None:
    step = step_seed(case["unit"], case["inner_step"], case["selection_seed"])
    seed = noise_seed(step, case["rollout"], case["rollout_iteration"])
    assert (step, seed) == (case["step_seed"], case["noise_seed"])
    np.testing.assert_allclose(uniforms(seed, 2, 3), case["cpu_noise_2x3"], atol=1e-15)


@pytest.mark.parametrize("temperature", [0.5, 1.0])
def test_tokens_have_the_tempered_law(temperature: float) -> None:
    logits = torch.tensor([0.5, -1.0, 1.5, -torch.inf, 0.0])
    tokens = gumbel_max(logits.expand(40_000, -1), uniforms(5, 40_000, 5), temperature)
    shares = np.bincount(tokens.numpy(), minlength=5) / 40_000
    np.testing.assert_allclose(shares, (logits / temperature).softmax(-1), atol=0.01)


def test_the_extremes_of_the_uniforms_and_no_temperature() -> None:
    logits = torch.tensor([[0.0, 1.0]])
    assert gumbel_max(logits, torch.tensor([[1 - 2.0**-53, 0.0]], dtype=torch.float64), 0.5).tolist() == [0]
    assert gumbel_max(logits, uniforms(0, 1, 2), 0.0).tolist() == [1]
