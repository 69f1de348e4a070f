"""Training batches: block diffusion, full-attention masked diffusion, and next-token prediction.

Block diffusion in one forward: a clean and a noised copy of each answer, attended so that every block is predicted from
its own noised tokens and the clean blocks before it. A mask carries no content, so a small model that only ever
predicts masks stays at unigram level for a long time (measured: 0.7 million tokens); next-token prediction, where every
position carries loss, gets it off the ground, so the first batches are causal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from wmbench.lab.training.corpus import Example
from wmbench.runtime.backbones.transformer import MaskedDiffusionTransformer
from wmbench.types import IntArray

BLOCK_LENGTHS = (5, 5, 5, 5, 5, 5, 5, 5, 5, 10, 16, 25, 25, 25, 25, 25, 50, 100)
"""Five most often because the lab decodes in stretches of five, of which a batch then holds five times as many as in
attention blocks of 25, the default; others so that the model also serves other geometries."""

DECODED_STRETCH = 5
"""Length of the blocks in which the lab decodes; an attention block is filled stretch by stretch."""

Layout = Literal["causal", "full", "block"]
"""causal: next token. full: one noised copy. block: a clean and a noised copy."""


def layout_odds(progress: float) -> dict[Layout, float]:
    """What kind of batch comes next. A block batch costs twice as much as a full or causal one."""
    if progress < 0.15:
        return {"causal": 1.0, "full": 0.0, "block": 0.0}
    if progress < 0.5:
        return {"causal": 0.0, "full": 0.6, "block": 0.4}
    return {"causal": 0.0, "full": 0.2, "block": 0.8}


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    ids: Tensor
    """[B, L]"""
    positions: Tensor
    """[B, L]"""
    mask: Tensor
    """[B, 1, L, L] True where a query may look; with several noised copies, over the first of them"""
    blocks: Tensor
    """[B, L] neighbours are mixed inside a block only"""
    copy_length: int
    """Length of each noised copy behind the clean one; 0: no clean copy"""
    target_index: Tensor
    """[n] flat indices into B * L of the positions that carry loss"""
    targets: Tensor
    """[n]"""
    weights: Tensor
    """[n]"""


def noise_levels(count: int, rng: np.random.Generator) -> np.ndarray:
    """Mask ratios stratified over (0, 1): every batch sees easy and hard blocks in the same proportion."""
    return rng.permutation((np.arange(count) + rng.random(count)) / count)


def build_batch(
    examples: Sequence[Example],
    mask_id: int,
    pad_id: int,
    rng: np.random.Generator,
    *,
    layout: Layout,
    block_length: int = 25,
    ratio: float | None = None,
    noised_copies: int = 1,
) -> TrainingBatch:
    """A batch of one layout. A fixed mask `ratio` is for evaluation. In the block layout several noised copies, masked
    differently, may share one clean copy."""
    answers = np.array([example.answer_ids for example in examples], dtype=np.int64)  # [B, N]
    batch, length = answers.shape
    prompt_lengths = np.array([len(example.prompt_ids) for example in examples])
    widest = int(prompt_lengths.max())
    prompts = np.full((batch, widest), pad_id, dtype=np.int64)
    for i, example in enumerate(examples):
        prompts[i, widest - prompt_lengths[i] :] = example.prompt_ids  # beside the answer, as they will be decoded

    copies, targets = [], list[tuple[IntArray, IntArray, IntArray, np.ndarray]]()  # (row, column, token, weight)
    if layout != "full":
        copies.append(answers)
    if layout == "causal":
        rows, cols = np.nonzero(np.ones((batch, length - 1), dtype=bool))
        targets.append((rows, widest + cols, answers[rows, cols + 1], np.ones(len(rows))))
    for _ in range({"causal": 0, "full": 1, "block": noised_copies}[layout]):
        noised, weights = _noise(answers, mask_id, rng, None if layout == "full" else block_length, ratio)
        rows, cols = np.nonzero(noised == mask_id)
        targets.append((rows, widest + len(copies) * length + cols, answers[rows, cols], weights[rows, cols]))
        copies.append(noised)

    ids = np.concatenate([prompts, *copies], axis=1)
    answer_positions = prompt_lengths[:, None] + np.arange(length)
    prompt_positions = np.maximum(0, np.arange(widest) - (widest - prompt_lengths[:, None]))
    positions = np.concatenate([prompt_positions, *[answer_positions] * len(copies)], axis=1)
    rows, columns, tokens, weights = (np.concatenate(part) for part in zip(*targets, strict=True))
    return TrainingBatch(
        torch.from_numpy(ids),
        torch.from_numpy(positions),
        _attention_mask(prompt_lengths, widest, length, layout, block_length),
        _mixing_blocks(prompt_lengths, widest, length, layout, block_length, noised_copies),
        length if layout == "block" else 0,
        torch.from_numpy(rows * ids.shape[1] + columns),
        torch.from_numpy(tokens),
        torch.from_numpy(weights.astype(np.float32)),
    )


def _noise(
    answers: IntArray, mask_id: int, rng: np.random.Generator, block_length: int | None, ratio: float | None
) -> tuple[IntArray, np.ndarray]:
    """Noised copy [B, N] and the weight of every position: ratio^-1/2."""
    batch, length = answers.shape
    block = np.arange(length) // (block_length or length)
    count = int(block[-1]) + 1
    levels = noise_levels(batch * count, rng).reshape(batch, count)[:, block]  # [B, N]
    far = np.zeros((batch, length), dtype=bool)
    if ratio is not None:
        levels = np.full((batch, length), ratio)
    else:
        # Many blocks as decoding sees them: clean up to the stretch that is being filled, masked behind it.
        stretch = np.arange(length) % (block_length or length) // DECODED_STRETCH
        active = rng.integers(0, int(stretch.max()) + 1, (batch, count))[:, block]
        decoded = (rng.random((batch, count)) < (0.25 if block_length is None else 0.75))[:, block]
        far = decoded & (stretch > active)
        levels = np.where(decoded & (stretch < active), 0.0, np.where(far, 1.0, levels))
    hidden = rng.random((batch, length)) < levels
    weights = np.maximum(levels, 0.02) ** -0.5
    # Many, all alike, and hardly predictable: they would drown the active stretch.
    weights[far] = 0.05 if block_length is None else 0.15
    return np.where(hidden, mask_id, answers), weights


def _attention_mask(prompt_lengths: IntArray, widest: int, length: int, layout: Layout, block_length: int) -> Tensor:
    """[B, 1, L, L] over the prompt and the copies; everybody sees the prompt, and under full attention it sees all."""
    prompt_keys = torch.arange(widest)[None, :] >= widest - torch.from_numpy(prompt_lengths)[:, None]  # [B, P]
    block = torch.arange(length) // block_length
    later_or_same = torch.ones(length, length, dtype=torch.bool).tril()
    if layout == "full":
        answer_rows = torch.ones(length, length, dtype=torch.bool)
    elif layout == "causal":
        answer_rows = later_or_same
    else:
        clean_to_clean = block[:, None] >= block[None, :]
        nothing = torch.zeros(length, length, dtype=torch.bool)
        noised_to_both = [block[:, None] > block[None, :], block[:, None] == block[None, :]]
        answer_rows = torch.cat([torch.cat([clean_to_clean, nothing], 1), torch.cat(noised_to_both, 1)], 0)
    total = widest + len(answer_rows)
    mask = torch.zeros(len(prompt_lengths), total, total, dtype=torch.bool)
    mask[:, :, :widest] = prompt_keys[:, None, :]
    mask[:, :widest, widest:] = layout == "full"
    mask[:, widest:, widest:] = answer_rows
    return mask[:, None]


def _mixing_blocks(
    prompt_lengths: IntArray, widest: int, length: int, layout: Layout, block_length: int, noised_copies: int
) -> Tensor:
    """[B, L] as the runtime's windows have them: one block under full attention, else the prompt and each block of each
    copy its own. A causal position has no neighbour: the next word is what it is to predict."""
    if layout == "causal":
        return torch.arange(widest + length).expand(len(prompt_lengths), -1)
    if layout == "full":
        answer = torch.zeros(length, dtype=torch.int64)
    else:
        clean = 1 + torch.arange(length) // block_length
        answer = torch.cat([clean + copy * length for copy in range(1 + noised_copies)])
    padding = torch.arange(widest)[None, :] < widest - torch.from_numpy(prompt_lengths)[:, None]
    return torch.cat([-2 * padding.long(), answer.expand(len(prompt_lengths), -1)], 1)


def masked_loss(model: MaskedDiffusionTransformer, batch: TrainingBatch, *, weighted: bool = True) -> Tensor:
    """Mean cross-entropy at the target positions; logits are computed nowhere else."""
    states = model(batch.ids, batch.positions, batch.mask, batch.blocks, batch.copy_length)
    wanted = states.flatten(0, 1)[batch.target_index]
    losses = F.cross_entropy(model.logits(wanted), batch.targets, reduction="none")
    if not weighted:
        return losses.mean()
    return (losses * batch.weights).sum() / batch.weights.sum()
