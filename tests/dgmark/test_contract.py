"""The contract of every scheme, and what is particular to DGMark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import ValidationError

import wmbench_dgmark
from wmbench.runtime.backbone import Backbone
from wmbench.testing import SchemeContract, run_scheme, score_texts, toy_key, toy_samples, toy_texts
from wmbench.testing.harness import SHORT, hooks_of
from wmbench.types import SchemeContext, TextContext
from wmbench_dgmark.config import DgMarkConfig
from wmbench_dgmark.decode import DgMark
from wmbench_dgmark.parity import token_bits

INFO = wmbench_dgmark.register_schemes()[0]
ONE_BY_ONE = SHORT.model_copy(update={"tokens_per_step": 1, "max_new_tokens": 40})


class TestDgMark(SchemeContract):
    info = INFO
    settings: ClassVar[dict[str, Any]] = {"beam": 3, "candidate_top_k": 5}
    long = ONE_BY_ONE


class TestOfficialParity(SchemeContract):
    """Without a key: the registered scheme as `prf: official` makes it."""

    info = replace(INFO, key_use="fixed")
    settings: ClassVar[dict[str, Any]] = {
        "prf": "official",
        "beam": 3,
        "fallback": "look_ahead",
        "candidates": "multinomial",
    }
    long = ONE_BY_ONE


class TestGlobalStatistic(SchemeContract):
    info = INFO
    settings: ClassVar[dict[str, Any]] = {"beam": 2, "statistic": "global", "p_value": "normal", "reward": "margin"}
    long = ONE_BY_ONE


def test_keyed_parity_is_balanced_and_keyed() -> None:
    one, other = (token_bits("hmac", toy_key(label), 1000) for label in ("one", "other"))
    assert one.sum() == other.sum() == 500
    assert 400 < (one == other).sum() < 600


def test_wider_beams_mark_more(tiny_full_backbone: Backbone) -> None:
    """Detection is obvious at beam 10: every text beats every clean one."""
    key, scores = toy_key("beam"), {}
    decoding = ONE_BY_ONE.model_copy(update={"max_new_tokens": 100})
    for beam in (1, 10):
        scheme = DgMark(DgMarkConfig(beam=beam), SchemeContext(tiny_full_backbone.codec, key))
        texts = [g.text for g in run_scheme(scheme, tiny_full_backbone, toy_samples(6), decoding)]
        scores[beam] = score_texts(scheme, tiny_full_backbone.codec, texts, key).scores[:, 0]
    null = score_texts(scheme, tiny_full_backbone.codec, toy_texts([100] * 200), key).scores[:, 0]
    assert scores[10].min() > null.max()
    assert scores[10].mean() > scores[1].mean() > null.mean()
    assert null.mean() == pytest.approx(1.0, abs=0.1)


def test_verdict_of_the_global_z() -> None:
    with pytest.raises(ValidationError, match="normal law"):
        DgMarkConfig(p_value="normal")


def test_evidence_names_the_windows(tiny_full_backbone: Backbone) -> None:
    scheme = DgMark(DgMarkConfig(prf="official"), SchemeContext(tiny_full_backbone.codec))
    text = " ".join(["w3", "w4"] * 10)  # odd ids at odd indices: every window fits
    hooks, context = hooks_of(scheme, codec=tiny_full_backbone.codec), TextContext(evidence=True)
    views = hooks.score(hooks.features([text, "w3"], context), None, context)
    assert views.scores[:, 0].tolist() == [8.0, 0.0]
    assert views.evidence is not None
    assert [(e.start, e.end, e.weight) for e in views.evidence[0]["windowed"]] == [(0, 8, 7.0), (8, 16, 7.0)]
    assert views.evidence[1]["windowed"] == ()
    assert np.isfinite(views.scores).all()
