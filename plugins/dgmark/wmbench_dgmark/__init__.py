"""Scheme `dgmark`: the order of decoding, not the tokens' probabilities, carries the mark. Imports no torch."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.published import DREAM, LLADA, LLADA2, blocks, on
from wmbench.types import SchemeInfo

_BLOCKS = blocks("low_confidence")

# As in the DenMark paper, appendix "DGMark". Dream, too, is decoded in blocks: its own loop gave too short answers.
PUBLISHED = {
    **on((*LLADA, *LLADA2), {"beam": 10, "candidate_top_k": 10}, _BLOCKS),
    **on(DREAM, {"beam": 32, "candidate_top_k": 32}, _BLOCKS),
}


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="dgmark",
            summary="decoding order: positions whose token has the parity of its place go first, with one step of beam",
            factory="wmbench_dgmark.decode:DgMark",
            detector="wmbench_dgmark.detect:DgMarkDetector",
            config="wmbench_dgmark.config:DgMarkConfig",
            alg_id="org.wmbench.dgmark.1",
            settings=PUBLISHED,
            decoding_only=frozenset({"beam", "candidates", "candidate_top_k", "reward", "fallback"}),
            detection_only=frozenset({"window", "statistic", "decay", "p_value"}),
        )
    ]
