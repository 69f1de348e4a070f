"""The toy model of the golden decodes (golden/README.md): logits are a formula of a cell and its two neighbours.

logit = 1.5 sin(0.7 (v+1)(i+1)) + cos(0.3 (v+1)(l+2)) + sin(0.2 (v+1)(r+3)) for token v at column i between the ids l
and r (0 beyond the ends), so the states carry (i, l, r) and the head evaluates the formula, in float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from wmbench.runtime.backbone import Attention, Prefix, Windows

VOCABULARY, MASK = 32, 31


class NumberCodec:
    """Text is a list of ids: "3 7 12 5"."""

    size = VOCABULARY
    special_ids = frozenset({MASK})
    fingerprint = "numbers"

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    encode_prompt = encode

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(str(i) for i in ids if i != MASK)


class FormulaBackbone:
    name = "formula"
    device = torch.device("cpu")
    mask_id = MASK
    eos_ids: frozenset[int] = frozenset()
    vocab_size = VOCABULARY
    banned_ids = (MASK,)
    attention = Attention()
    max_length = 512
    logit_shift = 0
    fingerprint = "formula"

    def __init__(self) -> None:
        self.codec = NumberCodec()

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        ids = windows.ids.clone()
        for i, length in enumerate(windows.lengths):
            ids[i, length:] = 0  # padding lies beyond the end
        beyond = torch.zeros_like(ids[:, :1])
        left, right = torch.cat([beyond, ids[:, :-1]], 1), torch.cat([ids[:, 1:], beyond], 1)
        return torch.stack([windows.positions, left, right], -1).double(), [None] * len(windows.groups)

    def logits(self, states: Tensor) -> Tensor:
        v = torch.arange(1, VOCABULARY + 1, dtype=torch.float64)
        i, left, right = (states[:, [j]] for j in range(3))
        logits: Tensor = (
            1.5 * torch.sin(0.7 * v * (i + 1)) + torch.cos(0.3 * v * (left + 2)) + torch.sin(0.2 * v * (right + 3))
        )
        return logits.index_fill(1, torch.tensor([MASK]), -1e9)
