"""Scheme `semstamp`: blocks are drawn until one falls into a valid bin of meanings (Hou et al.). Imports no torch."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.published import BLOCK_SEMANTIC_SETTINGS, SCAN_SETTINGS, UNIT_EMBEDDING_SETTINGS, UNIT_EMBEDDINGS
from wmbench.types import SchemeInfo


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="semstamp",
            summary="semantic, by whole blocks: redrawn until the meaning falls into a valid bin (Hou et al., adapted)",
            factory="wmbench_semstamp.scheme:SemStamp",
            config="wmbench_semstamp.config:SemStampConfig",
            alg_id="org.wmbench.semstamp.1",
            settings=BLOCK_SEMANTIC_SETTINGS,
            decoding_only=frozenset({"candidates", "block_temperature", "margin", "trials"}),
            detection_only=SCAN_SETTINGS,
            feature_settings=UNIT_EMBEDDING_SETTINGS,
            feature_family=UNIT_EMBEDDINGS,
        )
    ]
