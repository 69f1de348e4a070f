"""Scheme `block_best_of_k`: the best of K completions of every block, by DenMark's score. Imports no torch."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.published import BLOCK_SEMANTIC_SETTINGS, SCAN_SETTINGS, UNIT_EMBEDDING_SETTINGS, UNIT_EMBEDDINGS
from wmbench.types import SchemeInfo


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="block_best_of_k",
            summary="semantic, by whole blocks: the best of 16 completions under a keyed score (DenMark's ablation)",
            factory="wmbench_block_best_of_k.scheme:BlockBestOfK",
            config="wmbench_block_best_of_k.config:BestOfKConfig",
            alg_id="org.wmbench.block_best_of_k.1",
            settings=BLOCK_SEMANTIC_SETTINGS,
            decoding_only=frozenset({"candidates", "block_temperature"}),
            detection_only=SCAN_SETTINGS,
            feature_settings=UNIT_EMBEDDING_SETTINGS,
            feature_family=UNIT_EMBEDDINGS,
        )
    ]
