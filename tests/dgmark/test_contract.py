"""The contract of every scheme, and what is particular to DGMark."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
import wmbench_dgmark
from pydantic import ValidationError
from wmbench_dgmark.config import DgMarkConfig
from wmbench_dgmark.decode import DgMark
from wmbench_dgmark.parity import token_bits

from wmbench.runtime.backbone import Backbone
from wmbench.runtime.settings import Decoding
from wmbench.testing import SchemeContract, run_scheme, score_texts, toy_key, toy_samples, toy_texts
from wmbench.testing.harness import SHORT, hooks_of
from wmbench.types import SchemeContext, TextContext

INFO = wmbench_dgmark.register_schemes()[0]
KEY = toy_key("beam")
ONE_BY_ONE = SHORT.model_copy(update={"tokens_per_step": 1, "max_new_tokens": 40})


class TestDgMark(SchemeContract):
    info = INFO
    settings: ClassVar[dict[str, Any]] = {"beam": 3, "candidate_top_k": 5}
    long = ONE_BY_ONE


class TestOfficialParity(SchemeContract):
    """Without a key: the registered scheme as `prf: official` makes it."""

    info = INFO
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


class TestPairs(SchemeContract):
    info = INFO
    settings: ClassVar[dict[str, Any]] = {"beam": 3, "candidate_top_k": 5, "statistic": "pairs"}
    long = ONE_BY_ONE


def test_keyed_parity_is_balanced_and_keyed() -> None:
    one, other = (token_bits("hmac", toy_key(label), 1000) for label in ("one", "other"))
    assert one.sum() == other.sum() == 500
    assert 400 < (one == other).sum() < 600


def scores_of(backbone: Backbone, beam: int, decoding: Decoding, texts: int) -> npt.NDArray[np.float64]:
    scheme = DgMark(DgMarkConfig(beam=beam), SchemeContext(backbone.codec, KEY))
    generations = run_scheme(scheme, backbone, toy_samples(texts), decoding)
    return score_texts(scheme, backbone.codec, [g.text for g in generations], KEY).scores[:, 0]


def test_detection_is_obvious(tiny_full_backbone: Backbone) -> None:
    """100 tokens of a model with much entropy: every marked text beats 200 clean ones."""
    detector = DgMark(DgMarkConfig(), SchemeContext(tiny_full_backbone.codec))
    null = score_texts(detector, tiny_full_backbone.codec, toy_texts([100] * 200), KEY).scores[:, 0]
    assert null.mean() == pytest.approx(1.0, abs=0.1)
    assert (
        scores_of(tiny_full_backbone, 10, ONE_BY_ONE.model_copy(update={"max_new_tokens": 100}), 4).min() > null.max()
    )


def test_looking_ahead_marks_more(tiny_full_backbone: Backbone) -> None:
    """At temperature 0, where what is seen ahead comes true."""
    greedy = ONE_BY_ONE.model_copy(update={"max_new_tokens": 100, "temperature": 0.0})
    one, ten = (scores_of(tiny_full_backbone, beam, greedy, 12) for beam in (1, 10))
    assert ten.mean() > one.mean() + 0.3


def test_only_the_global_z_has_a_normal_law() -> None:
    with pytest.raises(ValidationError, match="normal law"):
        DgMarkConfig(p_value="normal")


def test_evidence_names_the_windows(tiny_full_backbone: Backbone) -> None:
    scheme = DgMark(DgMarkConfig(prf="official"), SchemeContext(tiny_full_backbone.codec))
    text = " ".join(["w3", "w4"] * 10)  # odd ids at odd indices: every window fits
    hooks, context = hooks_of(scheme, codec=tiny_full_backbone.codec), TextContext(evidence=True)
    views = hooks.score(hooks.features([text, "w3"], context), None, context)
    assert views.scores[:, 0].tolist() == pytest.approx([8.0, 0.0])
    assert views.evidence is not None
    assert [(e.start, e.end, round(e.weight, 9)) for e in views.evidence[0]["windowed"]] == [(0, 8, 7), (8, 16, 7)]
    assert views.evidence[1]["windowed"] == ()
    assert np.isfinite(views.scores).all()
