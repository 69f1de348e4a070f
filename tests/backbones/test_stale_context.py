"""Approximate look-ahead on published models: only a window is computed, against the keys and values around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.backbones.families import load
from wmbench.runtime.engine import Engine
from wmbench.runtime.lookahead import Edit
from wmbench.runtime.loop import decode
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Step
from wmbench.testing.checkpoints import make_checkpoint
from wmbench.types import Commit, Sample

LAYERS = {"llada": "n_layers", "dream": "num_hidden_layers"}


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("kind", LAYERS)
def test_stale_surroundings(kind: str, layers: int, tmp_path: Path) -> None:
    """In one layer keys and values depend on their own token alone, so the approximation is exact; in two it is not."""
    backbone = load(kind, make_checkpoint(kind, tmp_path / kind, overrides={LAYERS[kind]: layers}))
    engine, seen = Engine(backbone), list[Any]()

    def decide(step: Step) -> Commit:
        if not seen:
            for i, row in enumerate(step.rows):
                edits, columns = [Edit(i, np.array([row.start + 3]), np.array([50]))], [row.start + np.array([2, 4])]
                window = (row.start + 2, row.start + 7)
                pair = [dict(step.lookahead(edits, at).logits(columns))[0] for at in (None, [window])]
                seen.append(torch.stack([part[part.isfinite()] for part in pair]))
        return step.commit()

    samples = [Sample("a", "Save a little"), Sample("b", "Bake the bread slowly, and let it rest")]
    list(decode(samples, engine, Decoding(max_new_tokens=10), decide))
    for exact, approximate in seen:
        assert torch.allclose(exact, approximate, atol=1e-5, rtol=1e-5) == (layers == 1)
