"""What the pytest plugin offers to plugin authors."""

from __future__ import annotations

from collections.abc import Callable

from toy_schemes import Bias, GreenConfig

from wmbench.keys import SecretKey
from wmbench.runtime.backbone import Backbone
from wmbench.testing import score_texts, toy_samples
from wmbench.types import Generation, SchemeContext


def test_fixtures_fit_together(
    tiny_full_backbone: Backbone,
    tiny_block_backbone: Backbone,
    secret_key: SecretKey,
    null_texts: list[str],
    run_scheme: Callable[..., list[Generation]],
) -> None:
    for backbone in (tiny_full_backbone, tiny_block_backbone):
        scheme = Bias(GreenConfig(), SchemeContext(backbone.codec, secret_key))
        marked = [generation.text for generation in run_scheme(scheme, backbone, toy_samples(6))]
        own, null = (score_texts(scheme, backbone.codec, texts, secret_key).scores for texts in (marked, null_texts))
        assert own.mean() > null.mean() + 2 * null.std()


def test_null_texts_are_many_and_distinct(null_texts: list[str]) -> None:
    assert len(set(null_texts)) == 200
