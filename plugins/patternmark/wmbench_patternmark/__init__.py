"""Scheme `patternmark`: every position has a key colour from a Markov chain; frequent colour patterns give it away."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.types import SchemeInfo

_RANDOM_BLOCKS = {"schedule": "block", "block_length": 25, "positions": "random", "temperature": 0.5}
_ORIGIN = {"schedule": "origin", "steps": 300, "positions": "random", "temperature": 0.5}


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="patternmark",
            summary="colours of a Markov key chain, found by counting patterns (Chen et al., OrderAgnostic version)",
            factory="wmbench_patternmark.decode:PatternMark",
            config="wmbench_patternmark.config:PatternMarkConfig",
            alg_id="org.wmbench.patternmark.1",
            settings={
                "llada-8b": {"delta": 4.0, "decoding": _RANDOM_BLOCKS},
                "llada-1.5": {"delta": 4.0, "decoding": _RANDOM_BLOCKS},
                "llada2.0-mini": {"delta": 4.0, "decoding": {"positions": "random", "temperature": 0.5}},
                "dream-7b": {"delta": 4.0, "decoding": _ORIGIN},
            },
        )
    ]
