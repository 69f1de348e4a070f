"""The published rule, under `prf: official`: detector vectors, and toy decodes through the real runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.special import ndtr
from wmbench_dgmark.config import DgMarkConfig
from wmbench_dgmark.decode import DgMark
from wmbench_dgmark.detect import global_z, window_z, windowed_score
from wmbench_dgmark.parity import fits, token_bits

from tests.dgmark.reference import greedy_decode
from tests.dgmark.toy_backbone import FormulaBackbone
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Step
from wmbench.types import Commit, Sample, SchemeContext

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "dgmark.json").read_text(encoding="utf-8"))
BACKBONE = cast(Backbone, FormulaBackbone())
GREEDY = Decoding(max_new_tokens=24, block_length=8, temperature=0.0)


def decode_recording(
    prompt: list[int], decoding: Decoding = GREEDY, **settings: Any
) -> tuple[list[int], list[int], list[int]]:
    """Final ids, columns in the order they were filled, and forwards paid so far after each step."""
    scheme = DgMark(DgMarkConfig(prf="official", **settings), SchemeContext(BACKBONE.codec))
    order: list[int] = []
    forwards: list[int] = []

    def decide(step: Step) -> Commit:
        commit = scheme.decode_step(step)
        order.extend(commit.columns.tolist())
        forwards.append(step.rows[0].forward_rows)
        return commit

    sample = Sample("golden", " ".join(map(str, prompt)))
    generation = next(decode([sample], make_engine(BACKBONE, decoding), decoding, decide))
    return [*prompt, *generation.token_ids], order, forwards


@pytest.mark.parametrize("case", GOLDEN["detect"], ids=lambda case: f"n={case['n']}")
def test_detector(case: Mapping[str, Any]) -> None:
    ids = np.array(case["ids"])
    fitting = fits(token_bits("official", None, int(ids.max()) + 1), ids, case["prompt_len"] + np.arange(len(ids)))
    assert (fitting.sum(), len(fitting)) == (case["matches"], case["n"])
    assert global_z(fitting) == pytest.approx(case["z"], abs=1e-8)
    assert ndtr(-global_z(fitting)) == pytest.approx(case["p"], rel=1e-8)
    assert len(window_z(fitting, case["window"])) == case["n_windows"]
    assert windowed_score(fitting, case["window"]) == pytest.approx(case["mean_sq_window_z"], abs=1e-8)
    assert windowed_score(~fitting, case["window"]) == windowed_score(fitting, case["window"])


@pytest.mark.parametrize("window", [1, 3, 8, 16])
def test_detector_of_any_length_and_window(window: int) -> None:
    rng = np.random.default_rng(window)
    for n in (0, 1, 2, window - 1, window, window + 1, 40):
        matches = [bool(bit) for bit in rng.integers(2, size=n)]
        z = [(sum(matches[s : s + window]) / window - 0.5) / (0.25 / window) ** 0.5 for s in range(n - window + 1)]
        assert windowed_score(np.array(matches, dtype=bool), window) == pytest.approx(
            sum(value**2 for value in z) / len(z) if z else 0.0
        )
        expected = (sum(matches) - n / 2) / (n / 4) ** 0.5 if n else 0.0
        assert global_z(np.array(matches, dtype=bool)) == pytest.approx(expected)


def test_toy_model() -> None:
    ids = np.array([3, 7, 12, 5, *[31] * 24])  # the prompt of the decodes, and masks
    states = np.stack([np.arange(len(ids)), np.r_[0, ids[:-1]], np.r_[ids[1:], 0]], -1)
    logits = BACKBONE.logits(torch.from_numpy(states.astype(float)))
    np.testing.assert_allclose(logits, GOLDEN["toy_logits_for_all_mask_canvas"], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("case", GOLDEN["decode_greedy"], ids=lambda case: f"beam {case['beam']}")
def test_greedy_decode(case: Mapping[str, Any]) -> None:
    decoding = GREEDY.model_copy(update={"max_new_tokens": case["gen_length"], "block_length": case["block"]})
    ids, order, _ = decode_recording(case["prompt"], decoding, beam=case["beam"])
    assert ids == case["final_ids"]
    assert order == case["commit_order"]
    columns = np.arange(len(case["prompt"]), len(ids))
    fitting = fits(token_bits("official", None, 32), np.array(ids)[columns], columns)
    assert fitting.sum() == case["matches"]
    assert global_z(fitting) == pytest.approx(case["z"], abs=1e-7)
    assert (~fitting).sum() == case["fallback_steps"], "only where no candidate fits is one filled that does not"


class CountingDgMark(DgMark):
    """Remembers how many candidates fitted at each step."""

    counts: list[int]

    def _beam_width(self, fitting: int, open_cells: int) -> int:
        self.counts.append(fitting)
        return super()._beam_width(fitting, open_cells)


@pytest.mark.parametrize(
    "case",
    [case for case in GOLDEN["decode_greedy"] if case["lookahead_counts"]],
    ids=lambda case: f"beam {case['beam']}",
)
def test_lookahead_counts(case: Mapping[str, Any]) -> None:
    """What a trial promises is what the next step of the block finds: nothing is random here."""
    scheme = CountingDgMark(DgMarkConfig(prf="official", beam=case["beam"]), SchemeContext(BACKBONE.codec))
    scheme.counts = []
    decoding = GREEDY.model_copy(update={"max_new_tokens": case["gen_length"], "block_length": case["block"]})
    sample = Sample("golden", " ".join(map(str, case["prompt"])))
    next(decode([sample], make_engine(BACKBONE, decoding), decoding, scheme.decode_step))
    now = np.array(scheme.counts)
    after = np.where(np.arange(1, len(now) + 1) % case["block"], np.append(now[1:], 0), 0)
    assert (now == 0).sum() == case["fallback_steps"]
    assert after[now > 0].tolist() == case["lookahead_counts"]


@pytest.mark.parametrize("fallback", ["best_reward", "look_ahead"])
@pytest.mark.parametrize("beam", [1, 2, 3, 5, 10])
def test_decode_equals_a_plain_loop(beam: int, fallback: str) -> None:
    """Both fallback rules, beams up to and beyond the block, prompts of either parity. No canvas is forwarded twice."""
    for prompt in ([3, 7, 12, 5], [9, 1, 4], [30, 2, 2, 17, 8]):
        ids, order, forwards = decode_recording(prompt, beam=beam, fallback=fallback)
        assert (ids, order, forwards[-1]) == greedy_decode(prompt, 24, 8, beam, fallback == "look_ahead")


@pytest.mark.parametrize("beam", [1, 3, 10])
def test_forwards(beam: int) -> None:
    """A step costs at most 1 + beam forwards, and the base forward is free after a step that looked ahead."""
    _, order, forwards = decode_recording([3, 7, 12, 5], beam=beam)
    paid = np.diff(forwards, prepend=0)
    assert paid.max() <= 1 + beam if beam > 1 else (paid == 1).all()
    assert (paid[1:][paid[:-1] > 1] <= beam).all()
    assert forwards[-1] <= len(order) * (1 + beam)


def test_more_than_one_token_per_step() -> None:
    """Fitting positions first, then by reward, without a look-ahead."""
    decoding = GREEDY.model_copy(update={"tokens_per_step": 3})
    _, order, forwards = decode_recording([3, 7, 12, 5], decoding, beam=10)
    # The first decision, from the golden logits of the masked canvas.
    logits = np.array(GOLDEN["toy_logits_for_all_mask_canvas"])[4:12]
    token, reward = logits.argmax(1), np.exp(logits.max(1)) / np.exp(logits).sum(1)
    boosted = reward + 1e6 * (token % 2 == (np.arange(4, 12) + 1) % 2)
    assert order[:3] == (4 + np.argsort(-boosted)[:3]).tolist()
    assert forwards == list(range(1, 10))  # blocks of 8 are filled by 3 + 3 + 2
