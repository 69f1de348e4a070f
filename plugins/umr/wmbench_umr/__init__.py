"""Scheme `umr`: bit-controlled modulation in stable contexts, and regret re-masking. Imports no torch.

The scorer is exact; the decode core is a reconstruction (see README.md), which `status` says wherever it is named.
"""

from __future__ import annotations

from typing import Any

from wmbench import hookimpl
from wmbench.types import SchemeInfo

_LOOP: dict[str, Any] = {"positions": "low_confidence", "temperature": 0.5}
_BLOCKS: dict[str, Any] = {"schedule": "block", "block_length": 25, **_LOOP}
_LLADA: dict[str, Any] = {"delta": 10.0, "decoding": _BLOCKS}

# As in the DenMark paper, appendix "UMR": a stronger mark for Alpaca's short answers, on the LLaDA family only.
PUBLISHED: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("llada-8b", "llada-1.5", "llada2.0-mini", "mini", "mini-full"), _LLADA),
    **{f"{name}/alpaca": {"delta": 13.0} for name in ("llada-8b", "llada-1.5", "llada2.0-mini")},
    "dream-7b": {"delta": 10.0, "decoding": {"temperature": 0.5}},
}


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="umr",
            summary="token pairs hit a keyed bitmap that carries a message; misses are masked again once",
            factory="wmbench_umr.decode:Umr",
            config="wmbench_umr.config:UmrConfig",
            alg_id="org.wmbench.umr.1",
            key_use="secret",
            status="port, not verified against the authors' code",
            settings=PUBLISHED,
        )
    ]
