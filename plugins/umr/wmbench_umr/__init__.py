"""Scheme `umr`: bit-controlled modulation in stable contexts, and regret re-masking. Imports no torch.

The scorer is exact; the decode core is a reconstruction (see README.md), which `status` says wherever it is named.
"""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.published import DREAM, LLADA, LLADA2, blocks, on, origin
from wmbench.types import SchemeInfo

# As in the DenMark paper, appendix "UMR": a stronger mark for Alpaca's short answers, on the LLaDA family only.
PUBLISHED = {
    **on((*LLADA, *LLADA2), {"delta": 10.0}, blocks("low_confidence")),
    **{f"{name}/alpacafarm": {"delta": 13.0} for name in (*LLADA, *LLADA2)},
    **on(DREAM, {"delta": 10.0}, origin()),
}


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="umr",
            summary="token pairs hit a keyed bitmap that carries a message; misses are masked again once",
            factory="wmbench_umr.decode:Umr",
            detector="wmbench_umr.detect:UmrDetector",
            config="wmbench_umr.config:UmrConfig",
            alg_id="org.wmbench.umr.1",
            status="port, not verified against the authors' code",
            settings=PUBLISHED,
            decoding_only=frozenset({"delta", "strategy", "regret", "candidates"}),
            detection_only=frozenset({"scored_tokens", "p_value"}),
        )
    ]
