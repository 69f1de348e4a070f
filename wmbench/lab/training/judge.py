"""Train `mini-judge`: a small causal language model of lab documents. Resumable; a quarter of an hour on two cores.

It shares with `mini` the tokenizer and the layers, and nothing else: next-token loss, a causal mask, another shape,
another seed and other documents, so that it judges the outputs of `mini` from the outside. Its documents have no
favourite words or frames: it charges what the language would not say, not what one writer would rarely choose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from wmbench.lab.sample import EVEN
from wmbench.lab.training.backbone import BackboneRecipe, BackboneTrainer
from wmbench.lab.training.corpus import HELD_OUT_SEEDS, TRAIN_SEEDS, Example, examples
from wmbench.runtime.backbones.transformer import MaskedDiffusionTransformer
from wmbench.runtime.codec import TokenizerCodec

JUDGE_SEEDS = TRAIN_SEEDS[len(TRAIN_SEEDS) // 2 :]
"""The half of the training seeds that `mini` never reaches."""
HELD_OUT_DOCUMENTS = 48


class JudgeRecipe(BackboneRecipe):
    """Everything that decides how `mini-judge` comes out."""

    width: int = 192
    layers: int = 3
    heads: int = 3
    mlp_width: int = 512
    neighbours: tuple[int, ...] = ()
    batch_size: int = 8
    steps: int = 2000
    decay_share: float = 0.5
    learning_rate: float = 3e-3
    average_decay: float = 0.99
    seed: int = 11
    evaluate_every: int = 500


@dataclass(frozen=True, slots=True)
class CausalBatch:
    """Prompts and answers, padded on the right, where a causal mask cannot look."""

    ids: Tensor
    """[B, L] inputs: everything but each row's last token"""
    predicting: Tensor
    """[B, L] True where the next token belongs to the answer"""
    targets: Tensor
    """[n] those next tokens, row by row"""


def causal_batch(batch: Sequence[Example], pad_id: int) -> CausalBatch:
    widest = max(len(one.prompt_ids) + len(one.answer_ids) for one in batch)
    ids = torch.full((len(batch), widest), pad_id)
    predicting = torch.zeros(len(batch), widest - 1, dtype=torch.bool)
    for row, one in enumerate(batch):
        whole = one.prompt_ids + one.answer_ids
        ids[row, : len(whole)] = torch.tensor(whole)
        predicting[row, len(one.prompt_ids) - 1 : len(whole) - 1] = True
    return CausalBatch(ids[:, :-1], predicting, ids[:, 1:][predicting])


def token_losses(model: MaskedDiffusionTransformer, batch: CausalBatch) -> Tensor:
    """[n] negative log-likelihood of every answer token, row by row."""
    length = batch.ids.shape[1]
    positions = torch.arange(length)[None]
    mask = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    states = model(batch.ids, positions, mask)
    return F.cross_entropy(model.logits(states[batch.predicting]), batch.targets, reduction="none")


class JudgeTrainer(BackboneTrainer):
    """Checkpoints, averaging, schedule and log are those of `BackboneTrainer`; documents and loss are its own."""

    def __init__(
        self, folder: Path, codec: TokenizerCodec, recipe: JudgeRecipe | None = None, start: Path | None = None
    ) -> None:
        super().__init__(folder, codec, recipe or JudgeRecipe(), start)

    def next_loss(self, group: list[Example]) -> tuple[str, Tensor]:
        return "next-token", token_losses(self.model, causal_batch(group, self.pad_id)).mean()

    def evaluate(self, documents: int = HELD_OUT_DOCUMENTS) -> dict[str, float]:
        """Held-out loss (nats per answer token) of the averaged weights."""
        current = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(self.average)
        loss = held_out_loss(self.model, self.codec, self.pad_id, self.recipe.answer_tokens, documents)
        self.model.load_state_dict(current)
        return {"next-token": loss}

    def _examples(self, skip: int) -> Iterator[Example]:
        return examples(self.codec, JUDGE_SEEDS[int(skip * 1.1) :], self.recipe.answer_tokens, EVEN)


def held_out_loss(
    model: MaskedDiffusionTransformer,
    codec: TokenizerCodec,
    pad_id: int,
    answer_tokens: int = 300,
    documents: int = HELD_OUT_DOCUMENTS,
) -> float:
    """Mean negative log-likelihood per answer token of held-out documents."""
    held_out = list(islice(examples(codec, HELD_OUT_SEEDS, answer_tokens, EVEN), documents))
    with torch.inference_mode():
        batches = (causal_batch(held_out[i : i + 8], pad_id) for i in range(0, documents, 8))
        return torch.cat([token_losses(model, batch) for batch in batches]).mean().item()
