"""`mini` and `mini-full`: the embedded backbone of the lab. One weight file, two attention patterns."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wmbench.errors import ConfigError, IntegrityError
from wmbench.lab.codec import END, MASK, lab_codec, weights_folder
from wmbench.runtime.backbone import Attention, Prefix, Windows
from wmbench.runtime.backbones.mini_settings import MiniConfig
from wmbench.runtime.backbones.transformer import MaskedDiffusionTransformer, TransformerShape
from wmbench.runtime.devices import one_device

NEIGHBOURS = (-2, -1, 1, 2)
"""Offsets of its local mixing; the tensors do not tell."""


class MiniBackbone:
    """The trained lab model behind the `Backbone` protocol."""

    def __init__(self, config: MiniConfig | None = None) -> None:
        self.config = config = config or MiniConfig()
        self.name = "mini" if config.attention == "block" else "mini-full"
        self.codec = lab_codec()
        self.device = one_device(config.device, f"`{self.name}`")
        self.mask_id = self.codec.id_of(MASK)
        self.eos_ids = frozenset({self.codec.id_of(END)})
        self.vocab_size = self.codec.size
        self.banned_ids: Sequence[int] = sorted(self.codec.special_ids - self.eos_ids)
        self.attention = Attention(config.attention_block if config.attention == "block" else None)
        self.max_length = 1024
        self.logit_shift = 0
        self.model, self.fingerprint = _load_model(self.codec.size, self.device)
        self._head = column_by_column(self.model.embedding.weight)

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        with torch.inference_mode():
            return self.model.hidden(windows)

    def logits(self, states: Tensor) -> Tensor:
        with torch.inference_mode():
            return F.linear(states, self._head, self.model.output_bias)


def column_by_column(weight: Tensor) -> Tensor:
    """The same matrix in the order of memory that products with few rows read fastest."""
    return weight.T.contiguous().T


def _load_model(vocab_size: int, device: torch.device) -> tuple[MaskedDiffusionTransformer, str]:
    """fp16 on disk, fp32 in memory. The shape is read off the tensors."""
    from safetensors.torch import load

    path = weights_folder() / "mini.safetensors"
    if not path.is_file():
        raise ConfigError("the weights of `mini` are not installed", hint="run `wmbench lab train-backbone`")
    raw = path.read_bytes()
    state = {name: tensor.float() for name, tensor in load(raw).items()}
    rows, width = state["embedding.weight"].shape
    if rows != vocab_size:
        raise IntegrityError("the weights of `mini` do not fit its tokenizer", why=f"{rows} rows for {vocab_size} ids")
    shape = TransformerShape(
        vocab_size,
        width,
        layers=1 + max(int(name.split(".")[1]) for name in state if name.startswith("layers.")),
        heads=width // 64,
        mlp_width=state["layers.0.down.weight"].shape[1],
        neighbours=NEIGHBOURS,
        normed_heads=True,
    )
    model = MaskedDiffusionTransformer(shape)
    model.load_state_dict(state)
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(column_by_column(module.weight))
    digest = hashlib.blake2b(raw, digest_size=8).hexdigest()
    return model.eval().requires_grad_(False).to(device), digest
