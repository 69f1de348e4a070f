"""What the runtime asks of a diffusion language model.

The trunk (`hidden`) and the LM head (`logits`) are apart, so that the head is computed only where it is needed and
hidden states can be kept. The runtime hands over *windows*: stretches of canvases, each continuing a cached prefix
(or nothing). A backbone need not know about blocks, masks or schedules: it obeys `Windows.blocks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from wmbench.types import TextCodec

SAFE_ROWS_MINIMUM = 24
"""Matrix products with very few rows use other CPU kernels, whose last bits differ (measured on torch 2.13: up to 3
rows on one thread, up to 11 on two). From here on a row's result does not depend on its neighbours."""


def safe_rows(device: torch.device) -> int:
    """Rows below which a product is padded, so that batch size never changes a bit on CPU."""
    return max(SAFE_ROWS_MINIMUM, 12 * torch.get_num_threads()) if device.type == "cpu" else 1


@dataclass(frozen=True, slots=True)
class Attention:
    """Full attention (`block_length` None), or bidirectional inside a block and causal across blocks."""

    block_length: int | None = None
    origin: Literal["answer", "prompt"] = "answer"
    """answer: the prompt is one block and blocks count from its end; prompt: blocks count from the first token."""
    earlier: Literal["causal", "merged"] = "causal"
    """How what lies before the first block with a mask sees itself. merged: as one bidirectional block, whose keys and
    values are computed anew whenever it grows."""

    def block(self, column: int, start: int) -> int:
        """Index of the attention block of a column in a row whose answer begins at `start`."""
        if self.block_length is None:
            return 0
        if self.origin == "prompt":
            return column // self.block_length
        return 0 if column < start else 1 + (column - start) // self.block_length

    def first_column(self, block: int, start: int) -> int:
        if self.block_length is None or block == 0:
            return 0
        return block * self.block_length if self.origin == "prompt" else start + (block - 1) * self.block_length

    def end(self, column: int, start: int, length: int) -> int:
        """One past the last column that can be seen from `column`."""
        if self.block_length is None:
            return length
        return min(length, self.first_column(self.block(column, start) + 1, start))


class Prefix(Protocol):
    """Keys and values of the first `length` columns of a canvas. Immutable, so continuations share it."""

    @property
    def length(self) -> int: ...

    def crop(self, length: int) -> Prefix: ...


@runtime_checkable
class Surroundings(Prefix, Protocol):
    """A prefix whose keys and values may also stand on both sides of a window, for approximate look-ahead."""

    def without(self, begin: int, end: int) -> Prefix:
        """All columns but begin .. end."""


@dataclass(frozen=True, slots=True)
class WindowGroup:
    """Consecutive windows that continue the same prefix (the candidates of one row)."""

    count: int
    prefix: Prefix | None
    """Every query of the windows sees all of its columns."""
    keep: int = 0
    """Positions at the start of the window (count is then 1) whose keys and values extend the prefix."""


@dataclass(frozen=True, slots=True)
class Windows:
    """A batch of canvas stretches [B, W] for one forward. All windows of a batch have the same padded width W."""

    ids: Tensor
    """[B, W] int64; right padding repeats an arbitrary valid id."""
    positions: Tensor
    """[B, W] position ids (canvas columns)."""
    blocks: Tensor
    """[B, W] attention block; a query sees the keys whose block is not larger. Padding has a block above all others."""
    lengths: tuple[int, ...]
    """Real positions of each window; windows past len(lengths) are padding rows."""
    groups: tuple[WindowGroup, ...]

    def mask(self) -> Tensor:
        """[B, 1, W, W], True where a query may look at a key of its own window."""
        return self.blocks[:, None, :, None] >= self.blocks[:, None, None, :]


class Backbone(Protocol):
    """A masked diffusion language model, ready to run."""

    name: str
    codec: TextCodec
    device: torch.device
    mask_id: int
    eos_ids: frozenset[int]
    vocab_size: int
    """Width of the logits; may exceed the tokenizer."""
    banned_ids: Sequence[int]
    """Never sampled: the mask, ids beyond the tokenizer, special ids except EOS."""
    attention: Attention
    max_length: int
    logit_shift: int
    """0: the state at column i predicts column i; 1: the state at column i - 1 does (Dream)."""
    fingerprint: str
    """Identity of the weights."""

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        """States [B, W, D] after the final norm, and one extended prefix per group (None where keep is 0)."""

    def logits(self, states: Tensor) -> Tensor:
        """Logits [n, vocab_size] in float32 of states [n, D]."""
