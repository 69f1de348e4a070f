"""The approximate options: what they save, when they are exact, and that runs name them."""

from __future__ import annotations

from typing import Any

import pytest
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.scheme import DenMark

from wmbench.bench.plan import resolve_runs
from wmbench.config import load_config
from wmbench.errors import ConfigError
from wmbench.host import Host
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.runtime.settings import Decoding
from wmbench.testing import ToyEncoder, run_scheme, toy_key, toy_samples
from wmbench.types import Generation, SchemeContext

BLOCKS = Decoding(max_new_tokens=13, block_length=5)
BERNOULLI = Decoding(max_new_tokens=13, schedule="origin", steps=6)


def generated(backbone: TinyBackbone, decoding: Decoding, **settings: Any) -> list[Generation]:
    context = SchemeContext(backbone.codec, toy_key("approximate"), lambda name: ToyEncoder())
    scheme = DenMark(DenMarkConfig(unit_size=5, candidates=4, **settings), context)
    return run_scheme(scheme, backbone, toy_samples(3), decoding)


@pytest.mark.parametrize("decoding", [BLOCKS, BERNOULLI], ids=["blocks", "several active units"])
@pytest.mark.parametrize("shift", [0, 1])
def test_stale_context_is_exact_in_one_layer(decoding: Decoding, shift: int) -> None:
    """There keys and values outside of the unit do not depend on it, so the texts must be the same."""
    backbone = TinyBackbone(TinyConfig(layers=1, shift=shift))
    exact, stale = (generated(backbone, decoding, stale_context=stale) for stale in (False, True))
    assert [g.token_ids for g in stale] == [g.token_ids for g in exact]
    assert sum(g.cost.forward_tokens for g in stale) < sum(g.cost.forward_tokens for g in exact)


def test_stale_context_is_an_approximation_in_two_layers() -> None:
    backbone = TinyBackbone(TinyConfig(layers=2))
    exact, stale = (generated(backbone, BLOCKS, stale_context=stale) for stale in (False, True))
    assert [g.token_ids for g in stale] != [g.token_ids for g in exact]


def test_stale_context_is_refused_where_the_exact_cache_exists() -> None:
    with pytest.raises(ConfigError, match="block-causal"):
        generated(TinyBackbone(TinyConfig(attention="block")), BLOCKS, stale_context=True)


def test_runs_name_their_approximations_and_none_is_on_by_default() -> None:
    def plan(**params: Any) -> Any:
        config = load_config(options={"schemes": [{"name": "denmark", "params": params}], "backbone": "tiny"})
        return resolve_runs(config, Host.discover())[0]

    assert plan().approximations == {}
    assert plan(prefilter=4, stale_context=True).approximations == {"prefilter": 4, "stale_context": True}
