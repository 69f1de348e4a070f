"""Scheme `dlm_kgw`: a green list whose context may still be masked, so that the boost is taken in expectation."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.published import DREAM, LLADA, LLADA2, blocks, on, origin
from wmbench.types import SchemeInfo


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="dlm_kgw",
            summary="red-green lists by context hash, boosted in expectation over masked contexts (Gloaguen et al.)",
            factory="wmbench_dlm_kgw.decode:DlmKgw",
            detector="wmbench_dlm_kgw.detect:GreenDetector",
            config="wmbench_dlm_kgw.config:DlmKgwConfig",
            alg_id="org.wmbench.dlm_kgw.1",
            settings={
                **on(LLADA, {"delta": 4.0}, blocks()),
                **on(LLADA2, {"delta": 4.25}, blocks()),
                **on(DREAM, {"delta": 4.0}, origin()),
            },
            decoding_only=frozenset({"delta", "topk", "n_iter", "booster_only", "greenify_only", "enforce_kl"}),
            detection_only=frozenset({"p_value"}),
        )
    ]
