"""Scheme `patternmark`: every position has a key colour from a Markov chain; frequent colour patterns give it away."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.published import DREAM, LLADA, LLADA2, blocks, on, origin
from wmbench.types import SchemeInfo


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="patternmark",
            summary="colours of a Markov key chain, found by counting patterns (Chen et al., OrderAgnostic version)",
            factory="wmbench_patternmark.decode:PatternMark",
            detector="wmbench_patternmark.detect:PatternDetector",
            config="wmbench_patternmark.config:PatternMarkConfig",
            alg_id="org.wmbench.patternmark.1",
            settings={
                **on((*LLADA, *LLADA2), {"delta": 4.0}, blocks()),
                **on(DREAM, {"delta": 4.0}, origin()),
            },
            decoding_only=frozenset({"delta", "initial_state", "transition_matrix"}),
            detection_only=frozenset({"patterns", "max_tokens", "p_value"}),
        )
    ]
