"""Contrastive training by the paper's recipe: InfoNCE from anchors to the positives of their batch."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from wmbench.errors import ConfigError
from wmbench.semantics.trainable import Trainable

FIELD_NAMES = (("anchor", "positive"), ("text", "paraphrase"))


class ContrastiveRecipe(BaseModel):
    """Everything that decides how an encoder comes out. Defaults are the paper's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    temperature: float = Field(0.05, gt=0)
    batch_size: int = Field(128, ge=2, description="A last, smaller batch is dropped: it would have fewer negatives.")
    epochs: int = Field(3, ge=1)
    learning_rate: float = Field(1e-5, gt=0)
    weight_decay: float = Field(0.01, ge=0)
    warmup_share: float = Field(0.05, ge=0, lt=1, description="Share of the steps; linear decay to zero follows.")
    gradient_clip: float = Field(1.0, gt=0)
    group_size: int = Field(1, ge=1, description="Pairs of one group that stay together in a batch: hard negatives.")
    seed: int = Field(42, ge=0)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a training is."""

    step: int
    steps: int
    loss: float
    seconds_left: float

    def __str__(self) -> str:
        return f"step {self.step}/{self.steps}  loss {self.loss:.3f}  {self.seconds_left:.0f} s left"


@dataclass(frozen=True, slots=True)
class TextPair:
    anchor: str
    positive: str
    group: int = 0


def split_pairs(pairs: Sequence[TextPair], held_out: int, seed: int = 42) -> tuple[list[TextPair], list[TextPair]]:
    """Training pairs and about `held_out` others for retrieval; no group has pairs in both."""
    groups = sorted({pair.group for pair in pairs})
    order = np.random.default_rng(seed).permutation(len(groups))
    sizes: dict[int, int] = {}
    for pair in pairs:
        sizes[pair.group] = sizes.get(pair.group, 0) + 1
    kept_apart: set[int] = set()
    count = 0
    for place in order:
        if count >= held_out:
            break
        kept_apart.add(groups[place])
        count += sizes[groups[place]]
    training = [pair for pair in pairs if pair.group not in kept_apart]
    return training, [pair for pair in pairs if pair.group in kept_apart][:held_out]


def read_pairs(path: Path) -> list[TextPair]:
    """Pairs from JSON lines with the fields anchor/positive or text/paraphrase, and optionally group."""
    if not path.is_file():
        state = "is no file" if path.exists() else "does not exist"
        raise ConfigError(f"pairs file {str(path)!r} {state}", hint="give a .jsonl file with one pair per line")
    with path.open("rb") as file:  # as bytes: only a newline ends a line, whatever else a text contains
        return [
            _read_pair(line, f"{path}, line {number}", number)
            for number, line in enumerate(file, start=1)
            if line.strip()
        ]


def _read_pair(line: bytes, where: str, number: int) -> TextPair:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigError("a line of the pairs file is not JSON", where=where, why=str(error)) from error
    for anchor, positive in FIELD_NAMES:
        if isinstance(row, dict) and isinstance(row.get(anchor), str) and isinstance(row.get(positive), str):
            group = row.get("group", number)
            if not isinstance(group, int):
                raise ConfigError("the group of a pair is no whole number", where=where, why=f"it is {group!r}")
            if not (row[anchor].strip() and row[positive].strip()):
                raise ConfigError("a text of a pair is empty", where=where, hint="leave the pair out")
            return TextPair(row[anchor], row[positive], group)
    known = " or ".join(f"{anchor!r} and {positive!r}" for anchor, positive in FIELD_NAMES)
    raise ConfigError("a line of the pairs file has no pair of texts", where=where, why=f"it needs the fields {known}")


def info_nce(anchors: Tensor, positives: Tensor, temperature: float) -> Tensor:
    """Each anchor should find its own positive among all positives of the batch (one direction only)."""
    similarity = anchors @ positives.T / temperature
    return F.cross_entropy(similarity, torch.arange(len(anchors), device=similarity.device))


def batches(pairs: Sequence[TextPair], recipe: ContrastiveRecipe, epoch: int) -> Iterator[list[TextPair]]:
    """Full batches of one epoch, in an order fixed by the seed; up to `group_size` pairs of a group stay together."""
    rng = np.random.default_rng([recipe.seed, epoch])
    groups: dict[int, list[TextPair]] = {}
    for place in rng.permutation(len(pairs)):
        groups.setdefault(pairs[place].group, []).append(pairs[place])
    size = recipe.group_size
    pieces = [members[i : i + size] for members in groups.values() for i in range(0, len(members), size)]
    order = [pair for place in rng.permutation(len(pieces)) for pair in pieces[place]]
    for start in range(0, len(order) - recipe.batch_size + 1, recipe.batch_size):
        yield order[start : start + recipe.batch_size]


def learning_rate_factor(step: int, steps: int, warmup_share: float) -> float:
    """Linear warm-up, then linear decay to zero."""
    warmup = math.floor(warmup_share * steps)
    if step < warmup:
        return (step + 1) / warmup
    return (steps - step) / max(1, steps - warmup)


def train(
    model: Trainable, pairs: Sequence[TextPair], recipe: ContrastiveRecipe, report: Callable[[Progress], None] = print
) -> list[float]:
    """Train in place; returns the mean loss of every epoch."""
    steps_per_epoch = len(pairs) // recipe.batch_size
    if steps_per_epoch == 0:
        raise ConfigError(
            f"{len(pairs)} pairs do not fill one batch of {recipe.batch_size}",
            hint="use more pairs or a smaller --batch-size",
        )
    torch.manual_seed(recipe.seed)  # dropout
    parameters = [p for p in model.module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    steps = steps_per_epoch * recipe.epochs
    model.module.train()
    means, began, step = [], time.monotonic(), 0
    for epoch in range(recipe.epochs):
        losses = []
        for batch in batches(pairs, recipe, epoch):
            for group in optimizer.param_groups:
                group["lr"] = recipe.learning_rate * learning_rate_factor(step, steps, recipe.warmup_share)
            loss = info_nce(
                model.embed([p.anchor for p in batch]), model.embed([p.positive for p in batch]), recipe.temperature
            )
            optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(parameters, recipe.gradient_clip)
            optimizer.step()
            losses.append(loss.item())
            if not math.isfinite(losses[-1]):
                raise ConfigError(f"the loss is no number at step {step + 1}", hint="use a smaller --learning-rate")
            step += 1
            if step % max(1, steps // 50) == 0 or step == steps:
                left = (time.monotonic() - began) / step * (steps - step)
                report(Progress(step, steps, float(np.mean(losses[-50:])), left))
        means.append(float(np.mean(losses)))
    model.module.eval()
    return means


def embeddings(model: Trainable, texts: Sequence[str], batch_size: int = 128) -> npt.NDArray[np.float32]:
    """[n, dimension] without gradients."""
    training = model.module.training
    model.module.eval()
    with torch.no_grad():
        parts = [model.embed(texts[i : i + batch_size]).cpu().numpy() for i in range(0, len(texts), batch_size)]
    model.module.train(training)
    return np.concatenate(parts).astype(np.float32)


def measure_retrieval(model: Trainable, pairs: Sequence[TextPair]) -> float:
    """Paraphrase retrieval: how often an anchor's own positive is the nearest of all, 1 in len(pairs)."""
    return retrieval(embeddings(model, [p.anchor for p in pairs]), embeddings(model, [p.positive for p in pairs]))


def retrieval(anchors: npt.NDArray[np.float32], positives: npt.NDArray[np.float32]) -> float:
    """Share of anchors whose own positive is the nearest of all positives; a tie counts as a miss."""
    similarity = anchors @ positives.T
    own = np.diag(similarity).copy()
    np.fill_diagonal(similarity, -np.inf)
    return float(np.mean(own > similarity.max(axis=1)))
