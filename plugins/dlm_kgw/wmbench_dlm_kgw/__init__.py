"""Scheme `dlm_kgw`: a green list whose context may still be masked, so that the boost is taken in expectation."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.types import SchemeInfo

_RANDOM_BLOCKS = {"schedule": "block", "block_length": 25, "positions": "random", "temperature": 0.5}
_ORIGIN = {"schedule": "origin", "steps": 300, "positions": "random", "temperature": 0.5}


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="dlm_kgw",
            summary="red-green lists by context hash, boosted in expectation over masked contexts (Gloaguen et al.)",
            factory="wmbench_dlm_kgw.decode:DlmKgw",
            config="wmbench_dlm_kgw.config:DlmKgwConfig",
            alg_id="org.wmbench.dlm_kgw.1",
            settings={
                "llada-8b": {"delta": 4.0, "decoding": _RANDOM_BLOCKS},
                "llada-1.5": {"delta": 4.0, "decoding": _RANDOM_BLOCKS},
                "llada2.0-mini": {"delta": 4.25, "decoding": {"positions": "random", "temperature": 0.5}},
                "dream-7b": {"delta": 4.0, "decoding": _ORIGIN},
            },
        )
    ]
