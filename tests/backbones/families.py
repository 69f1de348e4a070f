"""What the tests need to know of each family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.backbones import reference
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.hf.settings import (
    CheckpointSettings,
    DreamSettings,
    Llada2Settings,
    Llada8bSettings,
)
from wmbench.runtime.engine import Engine
from wmbench.runtime.randomness import SampleRandom
from wmbench.runtime.row import Row
from wmbench.types import Sample

KINDS: dict[str, type[CheckpointSettings]] = {
    "llada": Llada8bSettings,
    "dream": DreamSettings,
    "llada2": Llada2Settings,
}
NAMES = {"llada": "llada-8b", "dream": "dream-7b", "llada2": "llada2.0-mini"}
PROMPTS = ["Save a little", "The river rises in spring, and why?", "Bake the bread slowly. " * 3]


def load(kind: str, directory: Path, **settings: Any) -> Backbone:
    from wmbench.runtime.backbones.hf.backbone import load_backbone

    return load_backbone(KINDS[kind](path=str(directory), **{"device": "cpu", **settings}))


def rows_of(backbone: Backbone, new_tokens: int = 40) -> list[Row]:
    """Rows of different lengths; every third cell of the answer is filled."""
    rows = []
    for i, prompt in enumerate(PROMPTS):
        ids = backbone.codec.encode_prompt(prompt)
        row = Row(Sample(f"s{i}", prompt), ids, new_tokens, backbone.mask_id, SampleRandom(0, f"s{i}"))
        columns = np.arange(row.start + i, row.length, 3)
        row.fill(columns, np.random.default_rng(i).integers(20, 300, len(columns)))
        rows.append(row)
    return rows


def logits_of(engine: Engine, rows: list[Row]) -> list[Tensor]:
    """Logits at every masked cell of each row, through the engine; banned ids are minus infinity."""
    columns = [row.masked for row in rows]
    spans = [engine.span(row, masked) for row, masked in zip(rows, columns, strict=True)]
    views = engine.base_views(rows, spans)
    return [
        engine.logits(view.at(masked), [(row, len(masked))])
        for view, masked, row in zip(views, columns, rows, strict=True)
    ]


def expected_logits(kind: str, directory: Path, row: Row, blocks: np.ndarray | None = None, **known: Any) -> Tensor:
    """The same from the formulas; `known` goes before what config.json says."""
    config, weights = reference.read(directory)
    config |= known
    ids = torch.from_numpy(row.canvas.copy())
    if kind == "llada2":
        blocks = np.arange(row.length) // 32 if blocks is None else blocks
        logits = reference.llada2(ids, config, weights, torch.from_numpy(blocks))
    else:
        logits = {"llada": reference.llada, "dream": reference.dream}[kind](ids, config, weights)
    return logits[torch.from_numpy(row.masked)]
