"""A small masked diffusion transformer in plain PyTorch: RMSNorm, RoPE, SwiGLU, tied embeddings.

Shapes: B windows, W positions, H heads, d = width / H, S cached positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from wmbench.runtime.backbone import Prefix, WindowGroup, Windows


@dataclass(frozen=True, slots=True)
class TransformerShape:
    vocab_size: int
    width: int = 256
    layers: int = 4
    heads: int = 4
    mlp_width: int = 640
    rope_theta: float = 10_000.0


@dataclass(frozen=True, slots=True)
class KeyValuePrefix:
    """Per layer keys and values [H, S, d]."""

    layers: tuple[tuple[Tensor, Tensor], ...]

    @property
    def length(self) -> int:
        return self.layers[0][0].shape[1]

    def crop(self, length: int) -> KeyValuePrefix:
        return KeyValuePrefix(tuple((k[:, :length], v[:, :length]) for k, v in self.layers))

    def without(self, begin: int, end: int) -> KeyValuePrefix:
        def rest(x: Tensor) -> Tensor:
            return torch.cat([x[:, :begin], x[:, end:]], 1)

        return KeyValuePrefix(tuple((rest(k), rest(v)) for k, v in self.layers))

    def extended(self, more: KeyValuePrefix) -> KeyValuePrefix:
        pairs = zip(self.layers, more.layers, strict=True)
        return KeyValuePrefix(tuple((torch.cat([k, k2], 1), torch.cat([v, v2], 1)) for (k, v), (k2, v2) in pairs))


class Rotary(nn.Module):
    """Rotary position embedding: pairs (i, i + d/2) are rotated by position * theta^(-2i/d)."""

    def __init__(self, head_width: int, theta: float) -> None:
        super().__init__()
        exponents = torch.arange(0, head_width, 2, dtype=torch.float32) / head_width
        self.frequencies: Tensor
        self.register_buffer("frequencies", theta**-exponents, persistent=False)

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        angles = positions[..., None].float() * self.frequencies  # [B, W, d/2]
        angles = torch.cat([angles, angles], -1)[:, None]  # [B, 1, W, d]
        return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-right, left], -1) * sin


class Layer(nn.Module):
    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.attention_norm = nn.RMSNorm(shape.width, eps=1e-6)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.mlp_norm = nn.RMSNorm(shape.width, eps=1e-6)
        self.gate_up = nn.Linear(shape.width, 2 * shape.mlp_width, bias=False)
        self.down = nn.Linear(shape.mlp_width, shape.width, bias=False)

    def heads_of(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values, each [B, H, W, d]."""
        batch, length, _ = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = rotate(qkv[:2], *rope)
        return q, k, qkv[2]

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Add the attention output [B, H, W, d] and the MLP to the residual stream."""
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def attend_packed(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, group: WindowGroup, past: tuple[Tensor, Tensor]
) -> Tensor:
    """Attention [n, H, W, d] of n windows over one shared prefix [H, S, d] and each over itself.

    The prefix is read once for all windows of the group instead of being copied n times.
    """
    n, heads, width, d = q.shape
    past_k, past_v = past
    q = q * d**-0.5  # a power of two for the usual d: as exact as scaling the products, which are more
    packed = q.transpose(0, 1).reshape(heads, n * width, d)
    over_past = (packed @ past_k.transpose(1, 2)).view(heads, n, width, -1).transpose(0, 1)
    over_self = (q @ k.transpose(2, 3)).masked_fill(~mask, -torch.inf)
    weights = torch.cat([over_past, over_self], -1).softmax(-1)
    w_past, w_self = torch.split(weights, [past_k.shape[1], width], dim=-1)
    from_past = w_past.transpose(0, 1).reshape(heads, n * width, -1) @ past_v
    return from_past.view(heads, n, width, d).transpose(0, 1) + w_self @ v


class MaskedDiffusionTransformer(nn.Module):
    """Predicts the token at every masked position from both sides."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab_size, shape.width)
        self.rotary = Rotary(shape.width // shape.heads, shape.rope_theta)
        self.layers: Iterable[Layer] = nn.ModuleList(Layer(shape) for _ in range(shape.layers))  # type: ignore[assignment]
        self.norm = nn.RMSNorm(shape.width, eps=1e-6)
        self.output_bias = nn.Parameter(torch.zeros(shape.vocab_size))
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, ids: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """States [B, W, width] for training: any boolean mask [B or 1, 1, W, W], no prefix."""
        x = self.embedding(ids)
        rope = self.rotary(positions)
        for layer in self.layers:
            q, k, v = layer.heads_of(x, rope)
            x = layer.finish(x, F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
        return self.norm(x)

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        """States [B, W, width] of windows that may continue cached prefixes, and the extended prefixes."""
        x = self.embedding(windows.ids)
        rope = self.rotary(windows.positions)
        mask = windows.mask()
        kept: list[list[tuple[Tensor, Tensor]]] = [[] for _ in windows.groups]
        for index, layer in enumerate(self.layers):
            q, k, v = layer.heads_of(x, rope)
            x = layer.finish(x, self._attend(q, k, v, mask, windows.groups, index, kept))
        return self.norm(x), [
            _extend(group, KeyValuePrefix(tuple(pairs))) if group.keep else None
            for group, pairs in zip(windows.groups, kept, strict=True)
        ]

    def logits(self, states: Tensor) -> Tensor:
        return F.linear(states, self.embedding.weight, self.output_bias)

    @staticmethod
    def _attend(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor,
        groups: Sequence[WindowGroup],
        layer: int,
        kept: list[list[tuple[Tensor, Tensor]]],
    ) -> Tensor:
        """Attention [B, H, W, d], group by group where there is a prefix; collects keys and values to keep."""
        parts, begin = [], 0
        for group, pairs in zip(groups, kept, strict=True):
            at = slice(begin, begin + group.count)
            if isinstance(group.prefix, KeyValuePrefix):
                parts.append(attend_packed(q[at], k[at], v[at], mask[at], group, group.prefix.layers[layer]))
            else:
                parts.append(F.scaled_dot_product_attention(q[at], k[at], v[at], attn_mask=mask[at]))
            if group.keep:
                pairs.append((k[begin, :, : group.keep], v[begin, :, : group.keep]))
            begin += group.count
        return torch.cat(parts) if len(parts) > 1 else parts[0]


def _extend(group: WindowGroup, more: KeyValuePrefix) -> Prefix:
    if isinstance(group.prefix, KeyValuePrefix):
        return group.prefix.extended(more)
    return KeyValuePrefix(tuple((k.clone(), v.clone()) for k, v in more.layers))
