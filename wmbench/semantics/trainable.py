"""Encoders as torch modules with gradients: the small architecture, and any Hugging Face encoder."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wmbench.runtime.codec import TokenizerCodec
from wmbench.semantics.hf_encoder import load_parts, mean_pool
from wmbench.semantics.mini_encoder import (
    FORMAT,
    TOKENIZER_FILE,
    WEIGHTS_FILE,
    MiniEncoder,
    MiniWeights,
    as_inside_a_text,
)

TRAINING_LENGTH = 64
"""Longest training input of a transformer, in tokens; segments have 25 words at most."""

COMMON_SHARE = 1e-3
"""A token with this share of all tokens starts with half the weight of a rare one."""


class Trainable(Protocol):
    """What the contrastive loop needs of an encoder."""

    @property
    def module(self) -> nn.Module: ...

    def embed(self, texts: Sequence[str]) -> Tensor:
        """[n, dimension] with gradients, L2-normalised."""

    def save(self, directory: Path, facts: Mapping[str, Any]) -> None:
        """Everything needed to load it again."""


class MiniModule(nn.Module):
    """The small encoder of `mini_encoder` with gradients; the formula is explained there."""

    def __init__(
        self,
        tokenizer: Path,
        prompt_layout: str = "{prompt}",
        *,
        width: int = 256,
        hidden: int = 512,
        seed: int = 42,
    ) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.tokenizer = tokenizer
        self.prompt_layout = prompt_layout  # does nothing here, but is part of the codec's fingerprint
        self.codec = codec = TokenizerCodec.from_file(tokenizer, prompt_layout)
        self._known: dict[str, list[int]] = {}
        self.special = torch.tensor(sorted(codec.special_ids), dtype=torch.long)
        self.vectors = nn.Parameter(torch.randn(codec.size, width, generator=generator) * width**-0.5)
        self.pooling = nn.Parameter(torch.zeros(codec.size))
        # The layer's input has unit length, so its sums have unit variance; it starts with no effect: plain pooling.
        self.inner = nn.Parameter(torch.randn(width, hidden, generator=generator))
        self.inner_bias = nn.Parameter(torch.zeros(hidden))
        self.outer = nn.Parameter(torch.zeros(hidden, width))
        self.outer_bias = nn.Parameter(torch.zeros(width))

    @property
    def module(self) -> nn.Module:
        return self

    def embed(self, texts: Sequence[str]) -> Tensor:
        rows = [self._tokens(text) for text in texts]
        flat = torch.tensor([i for row in rows for i in row], dtype=torch.long)
        offsets = torch.tensor([0, *(len(row) for row in rows[:-1])], dtype=torch.long).cumsum(0)
        weights = self.pooling[flat].exp().masked_fill(torch.isin(flat, self.special), 0.0)
        sums = F.embedding_bag(flat, self.vectors, offsets, mode="sum", per_sample_weights=weights)
        pooled = F.normalize(sums, dim=-1)
        hidden = F.relu(pooled @ self.inner + self.inner_bias)
        return F.normalize(pooled + hidden @ self.outer + self.outer_bias, dim=-1)

    def _tokens(self, text: str) -> list[int]:
        """Ids of a text, kept: tokenising would be half the work of every further epoch."""
        if text not in self._known:
            self._known[text] = self.codec.encode(as_inside_a_text(text))
        return self._known[text]

    def weigh_by_rarity(self, texts: Sequence[str]) -> None:
        """Start the pooling from smooth inverse frequencies: else the first steps only learn that "the" says little."""
        counts = torch.zeros(self.codec.size)
        for row in self.codec.encode_batch(texts):
            counts += torch.bincount(torch.tensor(row, dtype=torch.long), minlength=self.codec.size)
        with torch.no_grad():
            self.pooling.copy_(-torch.log1p(counts / counts.sum() / COMMON_SHARE))

    def as_encoder(self) -> MiniEncoder:
        """As it is now, for use without gradients."""
        weights = {name: tensor.numpy().copy() for name, tensor in self.state_dict().items()}
        identity = b"".join(array.tobytes() for array in weights.values()) + self.codec.fingerprint.encode()
        fingerprint = hashlib.blake2b(identity + FORMAT.encode(), digest_size=8).hexdigest()
        return MiniEncoder(MiniWeights(**weights), self.codec, fingerprint)

    def save_weights(self, path: Path, facts: Mapping[str, Any]) -> None:
        """fp16 on disk; the header tells which tokenizer it needs and how it was made."""
        from safetensors.torch import save_file

        header = {"format": FORMAT, "tokenizer": self.codec.fingerprint, "prompt_layout": self.prompt_layout}
        header |= {name: value if isinstance(value, str) else json.dumps(value) for name, value in facts.items()}
        tensors = {name: tensor.detach().half().contiguous() for name, tensor in self.state_dict().items()}
        aside = path.with_suffix(".tmp")
        save_file(tensors, aside, metadata=header)
        aside.chmod(0o644)  # the library writes 0600, which would make an installed package unreadable to others
        aside.replace(path)

    def save(self, directory: Path, facts: Mapping[str, Any]) -> None:
        self.save_weights(directory / WEIGHTS_FILE, facts)
        shape = {"width": self.vectors.shape[1], "hidden": self.inner.shape[1], "vocabulary": len(self.vectors)}
        (directory / "config.json").write_text(json.dumps({"format": FORMAT, **shape}, indent=2) + "\n")
        shutil.copyfile(self.tokenizer, directory / TOKENIZER_FILE)


class HfModule:
    """A Hugging Face encoder with gradients: mean pooling, L2 norm, no prefix."""

    def __init__(self, directory: Path) -> None:
        self.tokenizer, model, longest = load_parts(directory)
        self.module: nn.Module = model
        self.max_length = min(TRAINING_LENGTH, longest)

    def embed(self, texts: Sequence[str]) -> Tensor:
        batch = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.max_length, return_tensors="pt"
        )
        device = next(self.module.parameters()).device
        ids, mask = batch["input_ids"].to(device), batch["attention_mask"].to(device)
        return mean_pool(self.module(input_ids=ids, attention_mask=mask).last_hidden_state, mask)

    def save(self, directory: Path, facts: Mapping[str, Any]) -> None:
        model: Any = self.module
        model.save_pretrained(str(directory), safe_serialization=True)
        self.tokenizer.save_pretrained(str(directory))
