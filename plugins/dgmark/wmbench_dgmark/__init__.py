"""Scheme `dgmark`: the order of decoding, not the tokens' probabilities, carries the mark. Imports no torch."""

from __future__ import annotations

from typing import Any

from wmbench import hookimpl
from wmbench.types import SchemeInfo

_BLOCKS: dict[str, Any] = {"schedule": "block", "block_length": 25, "positions": "low_confidence", "temperature": 0.5}
_LLADA: dict[str, Any] = {"beam": 10, "candidate_top_k": 10, "decoding": _BLOCKS}

# As in the DenMark paper, appendix "DGMark". Dream, too, is decoded in blocks: its own loop gave too short answers.
PUBLISHED: dict[str, dict[str, Any]] = {
    "llada-8b": _LLADA,
    "llada-1.5": _LLADA,
    "llada2.0-mini": _LLADA,
    "dream-7b": {"beam": 32, "candidate_top_k": 32, "decoding": _BLOCKS},
    "mini": _LLADA,
    "mini-full": _LLADA,
}


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="dgmark",
            summary="decoding order: positions whose token has the parity of its place go first, with one step of beam",
            factory="wmbench_dgmark.decode:DgMark",
            config="wmbench_dgmark.config:DgMarkConfig",
            alg_id="org.wmbench.dgmark.1",
            key_use="secret",
            settings=PUBLISHED,
        )
    ]
