"""How the DenMark paper decoded each backbone: what the settings of published schemes are made of. Imports nothing.

A scheme registers its settings by backbone (`SchemeInfo.settings`). Most of them differ in a strength only:

    settings={**on(LLADA, {"delta": 4.0}, blocks()), **on(DREAM, {"delta": 4.0}, origin())}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Settings = dict[str, Any]
Published = dict[str, Settings]

LLADA: Final = ("llada-8b", "llada-1.5")
LLADA2: Final = ("llada2.0-mini",)
DREAM: Final = ("dream-7b",)

ENCODER: Final[Mapping[str, Any]] = {"encoder": "hf:intfloat/e5-base-v2", "dimension": 768}
"""The paper's encoder is this model after contrastive training. Its weights have no public name, so the untuned model
stands here; name a trained one with `-S encoder=hf:<directory>`."""


def blocks(positions: str = "random", temperature: float = 0.5) -> Settings:
    """Blocks of 25 tokens, one token per step."""
    return {"schedule": "block", "block_length": 25, "positions": positions, "temperature": temperature}


def origin(temperature: float = 0.5) -> Settings:
    """Dream's own time, 300 steps."""
    return {"schedule": "origin", "steps": 300, "positions": "random", "temperature": temperature}


def on(backbones: tuple[str, ...], settings: Mapping[str, Any], decoding: Mapping[str, Any]) -> Published:
    """The same settings on several backbones."""
    return {name: {**settings, "decoding": dict(decoding)} for name in backbones}


BLOCK_SEMANTIC_SETTINGS: Final[Published] = on((*LLADA, *LLADA2), ENCODER, blocks())
"""The block-decoded semantic baselines; the paper ran them on the LLaDA family. Their completions are drawn at a
temperature of their own, so that clean texts to compare with are those of the other schemes."""
SCAN_SETTINGS: Final = frozenset({"detector", "scan_sizes", "scan_rule", "units", "reference_tokens"})
"""Settings of `wmbench.semantics.scan_config.ScanConfig` that concern the detector only."""
UNIT_EMBEDDINGS: Final = "unit embeddings"
"""What `wmbench.semantics.scan.unit_features` computes: the feature family of all semantic schemes."""
UNIT_EMBEDDING_SETTINGS: Final = frozenset(
    {"encoder", "dimension", "unit_size", "detector", "scan_sizes", "units", "reference_tokens"}
)
"""What they depend on: neither on how texts are marked, nor on how units are scored."""
