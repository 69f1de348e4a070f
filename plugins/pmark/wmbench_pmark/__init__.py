"""Scheme `pmark`: a completion of every block on the keyed side of all pivots (Huo et al.). Imports no torch."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.published import BLOCK_SEMANTIC_SETTINGS, SCAN_SETTINGS, UNIT_EMBEDDING_SETTINGS, UNIT_EMBEDDINGS
from wmbench.types import SchemeInfo


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="pmark",
            summary="semantic, by whole blocks: a completion on the keyed side of every pivot (Huo et al., adapted)",
            factory="wmbench_pmark.scheme:PMark",
            config="wmbench_pmark.config:PMarkConfig",
            alg_id="org.wmbench.pmark.1",
            settings=BLOCK_SEMANTIC_SETTINGS,
            decoding_only=frozenset({"candidates", "block_temperature", "median"}),
            detection_only=SCAN_SETTINGS | {"tolerance", "sharpness"},
            feature_settings=UNIT_EMBEDDING_SETTINGS,
            feature_family=UNIT_EMBEDDINGS,
        )
    ]
