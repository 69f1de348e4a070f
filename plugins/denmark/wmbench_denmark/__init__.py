"""Scheme `denmark`: a semantic watermark for diffusion language models that looks ahead by rollouts (Ma et al.)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmbench import hookimpl
from wmbench.types import SchemeInfo

# The paper's encoder is this model after contrastive training. Its weights have no public name, so the untuned model
# stands here; name a trained one with `-S encoder=hf:<directory>`.
_ENCODER = {"encoder": "hf:intfloat/e5-base-v2", "dimension": 768}
_ANSWER = {"max_new_tokens": 300, "temperature": 0.5}
_UNIT_BY_UNIT = {**_ANSWER, "schedule": "block", "block_length": 25, "block_origin": "answer", "positions": "random"}
_DREAM = {**_ANSWER, "schedule": "origin", "steps": 300, "eps": 1e-3}

PAPER_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "llada-8b": {**_ENCODER, "decoding": _UNIT_BY_UNIT},
    "llada-1.5": {**_ENCODER, "decoding": _UNIT_BY_UNIT},
    "llada2.0-mini": {**_ENCODER, "decoding": _UNIT_BY_UNIT},
    "dream-7b": {**_ENCODER, "decoding": _DREAM},
}
"""What differs from the defaults of `DenMarkConfig`, which are the paper's and fit the lab's backbones as they are."""


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="denmark",
            summary="steers the meaning of every unit of 25 tokens by rollout look-ahead; survives paraphrase",
            factory="wmbench_denmark.scheme:DenMark",
            config="wmbench_denmark.config:DenMarkConfig",
            alg_id="org.wmbench.denmark.1",
            key_use="secret",
            settings=PAPER_SETTINGS,
        )
    ]
