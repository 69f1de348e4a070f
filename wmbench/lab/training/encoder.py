"""Make `mini-encoder`: lab pairs, the recipe of `wmbench train-encoder`, a few minutes on one core."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from wmbench.lab.training.corpus import HELD_OUT_SEEDS
from wmbench.lab.training.pairs import pairs
from wmbench.lab.training.tokenizer import PROMPT_LAYOUT
from wmbench.semantics.contrastive import ContrastiveRecipe, Progress, TextPair, measure_retrieval, train
from wmbench.semantics.trainable import MiniModule

WEIGHTS_NAME = "mini-encoder.safetensors"
PAIRS = 320_000
RECIPE = ContrastiveRecipe(epochs=2, learning_rate=1e-2, group_size=16)
RETRIEVAL_PAIRS = 1000


def make_mini_encoder(
    out_dir: Path,
    *,
    tokenizer: Path | None = None,
    count: int = PAIRS,
    recipe: ContrastiveRecipe = RECIPE,
    report: Callable[[Progress], None] = print,
) -> dict[str, Any]:
    """Train on fresh lab pairs and write the weights; the same on every run with one thread. Returns what was measured.

    `tokenizer` is the lab's, by default the one already in `out_dir`.
    """
    model = MiniModule(tokenizer or out_dir / "tokenizer.json", PROMPT_LAYOUT, seed=recipe.seed)
    made = [TextPair(p.anchor, p.positive, p.document) for p in pairs(model.codec, count, recipe.seed)]
    unseen = pairs(model.codec, RETRIEVAL_PAIRS, recipe.seed, HELD_OUT_SEEDS)
    held_out = [TextPair(p.anchor, p.positive, p.document) for p in unseen]
    model.weigh_by_rarity([pair.anchor for pair in made])
    before = measure_retrieval(model, held_out)
    losses = train(model, made, recipe, report)
    facts = {
        "recipe": recipe.model_dump(),
        "pairs": count,
        "retrieval": {"candidates": len(held_out), "before": before, "after": measure_retrieval(model, held_out)},
        "loss_by_epoch": losses,
        "licence": "Apache-2.0",
    }
    out_dir.mkdir(parents=True, exist_ok=True)
    model.save_weights(out_dir / WEIGHTS_NAME, facts)
    return facts
