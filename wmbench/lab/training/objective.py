"""Block diffusion in one forward: a clean and a noised copy of each answer, attended so that every block is
predicted from its own noised tokens and the clean blocks before it. Full attention is the case of one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from wmbench.lab.training.corpus import Example
from wmbench.runtime.backbones.transformer import MaskedDiffusionTransformer
from wmbench.types import IntArray

BLOCK_LENGTHS = (5, 10, 16, 20, 25, 25, 25, 25, 32, 50, 100)
"""The default block of 25 most often; others so that the model also serves other geometries."""


def full_attention_share(progress: float) -> float:
    """Share of batches with full attention. They cost a third of a block batch (no clean copy), so the language is
    learnt mostly on them first, and block geometry later."""
    return 0.7 if progress < 0.35 else 0.25


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    ids: Tensor
    """[B, L]"""
    positions: Tensor
    """[B, L]"""
    mask: Tensor
    """[B, 1, L, L] True where a query may look"""
    target_index: Tensor
    """[n] flat indices into B * L of the masked positions"""
    targets: Tensor
    """[n]"""
    weights: Tensor
    """[n]"""


def noise_levels(count: int, rng: np.random.Generator) -> np.ndarray:
    """Mask ratios stratified over (0, 1]: every batch sees easy and hard blocks in the same proportion."""
    return rng.permutation((np.arange(count) + rng.random(count)) / count)


def build_batch(
    examples: Sequence[Example],
    mask_id: int,
    pad_id: int,
    rng: np.random.Generator,
    *,
    block_length: int | None,
    ratio: float | None = None,
) -> TrainingBatch:
    """`block_length` None is full attention. A fixed `ratio` is for evaluation."""
    answers = np.array([example.answer_ids for example in examples], dtype=np.int64)  # [B, N]
    batch, length = answers.shape
    widest = max(len(example.prompt_ids) for example in examples)
    prompts = np.full((batch, widest), pad_id, dtype=np.int64)
    prompt_lengths = np.array([len(example.prompt_ids) for example in examples])
    for i, example in enumerate(examples):
        prompts[i, : prompt_lengths[i]] = example.prompt_ids
    noised, weights = _noise(answers, mask_id, rng, block_length, ratio)

    columns = np.arange(length)
    copies = [noised] if block_length is None else [answers, noised]
    ids = np.concatenate([prompts, *copies], axis=1)
    answer_positions = prompt_lengths[:, None] + columns
    positions = np.concatenate([np.tile(np.arange(widest), (batch, 1)), *[answer_positions] * len(copies)], axis=1)
    mask = _attention_mask(prompt_lengths, widest, length, block_length)

    begin = widest + (len(copies) - 1) * length
    rows, cols = np.nonzero(noised == mask_id)
    total = ids.shape[1]
    return TrainingBatch(
        torch.from_numpy(ids),
        torch.from_numpy(positions),
        mask,
        torch.from_numpy(rows * total + begin + cols),
        torch.from_numpy(answers[rows, cols]),
        torch.from_numpy(weights[rows, cols].astype(np.float32)),
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
    elif block_length is None:
        # Half of the rows as LLaDA's block loop sees them: clean up to the active block, masked behind it.
        for i in range(0, batch, 2):
            active = int(rng.integers(0, length // 25))
            inside = levels[i, 0]
            levels[i, : active * 25] = 0.0
            levels[i, (active + 1) * 25 :] = 1.0
            levels[i, active * 25 : (active + 1) * 25] = inside
            far[i, (active + 1) * 25 :] = True
    hidden = rng.random((batch, length)) < levels
    weights = np.maximum(levels, 0.02) ** -0.5
    weights[far] = 0.15  # many, all alike, and hardly predictable: they would drown the active block
    return np.where(hidden, mask_id, answers), weights


def _attention_mask(prompt_lengths: IntArray, widest: int, length: int, block_length: int | None) -> Tensor:
    """[B, 1, L, L] over (prompt, clean, noised), or (prompt, noised) for full attention."""
    batch = len(prompt_lengths)
    prompt_keys = torch.arange(widest)[None, :] < torch.from_numpy(prompt_lengths)[:, None]  # [B, P]
    if block_length is None:
        keys = torch.cat([prompt_keys, torch.ones(batch, length, dtype=torch.bool)], 1)
        return keys[:, None, None, :].expand(batch, 1, widest + length, widest + length)
    block = torch.arange(length) // block_length
    clean_to_clean = block[:, None] >= block[None, :]
    noised_to_clean = block[:, None] > block[None, :]
    noised_to_noised = block[:, None] == block[None, :]
    nothing = torch.zeros(length, length, dtype=torch.bool)
    answer_rows = torch.cat(
        [torch.cat([clean_to_clean, nothing], 1), torch.cat([noised_to_clean, noised_to_noised], 1)], 0
    )
    total = widest + 2 * length
    mask = torch.zeros(batch, total, total, dtype=torch.bool)
    mask[:, :, :widest] = prompt_keys[:, None, :]  # everybody sees the prompt; the prompt sees only itself
    mask[:, widest:, widest:] = answer_rows
    return mask[:, None]


def masked_loss(model: MaskedDiffusionTransformer, batch: TrainingBatch, *, weighted: bool = True) -> Tensor:
    """Mean cross-entropy at the masked positions; logits are computed nowhere else."""
    states = model(batch.ids, batch.positions, batch.mask)
    wanted = states.flatten(0, 1)[batch.target_index]
    losses = F.cross_entropy(model.logits(wanted), batch.targets, reduction="none")
    if not weighted:
        return losses.mean()
    return (losses * batch.weights).sum() / batch.weights.sum()
