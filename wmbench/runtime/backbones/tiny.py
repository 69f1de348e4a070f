"""Tiny random transformers with a toy vocabulary: for tests, contract suites and dry runs.

Random weights write nonsense, but through exactly the code paths of a real model: full attention (as LLaDA, Dream) or
block-causal attention with a prefix cache (as LLaDA2.0), logits wider than the tokenizer, optionally shifted by one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from wmbench.runtime.backbone import Attention, Prefix, Windows
from wmbench.runtime.backbones.transformer import MaskedDiffusionTransformer, TransformerShape
from wmbench.runtime.devices import one_device
from wmbench.types import TextCodec

_EOS, _PAD, _MASK, _FIRST_WORD = 0, 1, 2, 3


class ToyCodec:
    """Ids are words of their own: 7 <-> "w7". Text and ids translate into each other without loss."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.special_ids = frozenset({_EOS, _PAD, _MASK})
        self.fingerprint = f"toy-{size}"

    def encode(self, text: str) -> list[int]:
        return [self._id(word) for word in text.split()]

    def _id(self, word: str) -> int:
        if word[:1] == "w" and word[1:].isdecimal() and len(word) < 9 and _FIRST_WORD <= int(word[1:]) < self.size:
            return int(word[1:])
        # Any other word gets a stable id, so that ordinary text can be a prompt or a null text.
        digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=4).digest()
        return _FIRST_WORD + int.from_bytes(digest, "little") % (self.size - _FIRST_WORD)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(f"w{i}" for i in ids if i not in self.special_ids and i < self.size)

    def encode_prompt(self, prompt: str) -> list[int]:
        return self.encode(prompt) or [_PAD]


class TinyConfig(BaseModel):
    """Settings of the tiny random backbone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    attention: Literal["full", "block"] = "full"
    attention_block: int = Field(8, ge=1, description="Block length of block-causal attention.")
    block_origin: Literal["answer", "prompt"] = "answer"
    tokenizer_size: int = Field(61, ge=8)
    vocab_size: int = Field(67, ge=8, description="Width of the logits; ids beyond the tokenizer are banned.")
    width: int = 32
    layers: int = 2
    heads: int = 2
    scale: float = Field(0.5, gt=0, description="Scales the logits: larger means less entropy per token.")
    shift: Literal[0, 1] = Field(0, description="1: the state at column i - 1 predicts column i, as in Dream.")
    seed: int = 0
    max_length: int = 4096
    device: str = "cpu"


class TinyBackbone:
    """A random transformer behind the `Backbone` protocol."""

    def __init__(self, config: TinyConfig | None = None) -> None:
        self.config = config = config or TinyConfig()
        self.name = f"tiny-{config.attention}"
        self.codec: TextCodec = ToyCodec(config.tokenizer_size)
        self.device = one_device(config.device, f"`{self.name}`")
        self.mask_id = _MASK
        self.eos_ids = frozenset({_EOS})
        self.vocab_size = config.vocab_size
        self.banned_ids: Sequence[int] = (_PAD, _MASK, *range(config.tokenizer_size, config.vocab_size))
        block = config.attention_block if config.attention == "block" else None
        self.attention = Attention(block, config.block_origin)
        self.max_length = config.max_length
        self.logit_shift: int = config.shift
        self.fingerprint = hashlib.blake2b(config.model_dump_json().encode(), digest_size=8).hexdigest()
        shape = TransformerShape(config.vocab_size, config.width, config.layers, config.heads, 2 * config.width)
        self.model = MaskedDiffusionTransformer(shape).eval().requires_grad_(False)
        generator = torch.Generator().manual_seed(config.seed)
        for parameter in self.model.parameters():
            if parameter.dim() == 2:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * parameter.shape[1] ** -0.5)
        self.model.to(self.device)

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        return self.model.hidden(windows)

    def logits(self, states: Tensor) -> Tensor:
        return self.model.logits(states).float() * self.config.scale
