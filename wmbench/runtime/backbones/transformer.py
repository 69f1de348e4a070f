"""A small masked diffusion transformer in plain PyTorch: RMSNorm, RoPE, SwiGLU, tied embeddings, local mixing.

Shapes: B windows, W positions, H heads, d = width / H, S cached positions, D width.
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
    neighbours: tuple[int, ...] = ()
    """Offsets of the neighbours every layer mixes into a position, e.g. (-2, -1, 1, 2); empty: attention only."""
    normed_heads: bool = False
    """Queries and keys of unit size times a learnt gain, so that attention cannot saturate however weights grow."""


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


class RootMeanSquareNorm(nn.RMSNorm):
    """torch's own to the last bit, with less temporary memory, which is most of what a small norm costs."""

    def forward(self, x: Tensor) -> Tensor:
        assert self.eps is not None
        return unit_size(x, self.eps).mul_(self.weight)


def unit_size(x: Tensor, eps: float) -> Tensor:
    """Vectors along the last axis, divided by their root mean square."""
    wide = x.float()
    return (wide * (wide * wide).mean(-1, keepdim=True).add_(eps).rsqrt_()).to(x.dtype)


class Rotary(nn.Module):
    """Rotary position embedding: pairs (i, i + d/2) are rotated by position * theta^(-2i/d)."""

    def __init__(self, head_width: int, theta: float) -> None:
        super().__init__()
        exponents = torch.arange(0, head_width, 2, dtype=torch.float32) / head_width
        self.frequencies: Tensor
        self.register_buffer("frequencies", theta**-exponents, persistent=False)

    def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines, and sines with the sign of the half they turn, each [B, W, 1, 1, d]."""
        angles = positions[..., None, None, None].float() * self.frequencies
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, dim=-1)
    return (x * cos).add_(torch.cat([right, left], -1).mul_(sin))


class LocalMixing(nn.Module):
    """Adds to a position its neighbours, scaled per offset and dimension.

    All masks have one and the same embedding, so at first attention can tell them apart by position only, and a small
    model learns to look at the words beside a mask very slowly. This hands it those words. Neighbours in another
    attention block do not count: a block's states must not depend on what comes after it, and a window that continues
    a cached prefix does not hold what comes before.
    """

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.offsets = shape.neighbours
        self.weight = nn.Parameter(torch.zeros(len(self.offsets), 1, shape.width))

    def forward(self, x: Tensor, same_block: Sequence[Tensor] | None) -> Tensor:
        """[B, W, D]; `same_block` as from `same_block_masks`."""
        reach, width = max(map(abs, self.offsets)), x.shape[1]
        padded = F.pad(x, (0, 0, reach, reach))
        mixed = x
        for i, (offset, weight) in enumerate(zip(self.offsets, self.weight.unbind(), strict=True)):
            neighbour = padded[:, reach + offset : reach + offset + width]
            scaled = (neighbour if same_block is None else neighbour * same_block[i]) * weight
            mixed = scaled.add_(mixed) if mixed is x else mixed.add_(scaled)
        return mixed


def same_block_masks(blocks: Tensor, offsets: Sequence[int]) -> list[Tensor] | None:
    """For every offset [B, W, 1]: 1 where the neighbour at that offset lies in the same block, else 0. None if every
    window lies in one block, as nearly all do that continue a prefix: then there is nothing to mask."""
    if (blocks == blocks[:, :1]).all():
        return None
    reach, width = max(map(abs, offsets), default=0), blocks.shape[1]
    padded = F.pad(blocks, (reach, reach), value=-1)
    neighbours = (padded[:, reach + offset : reach + offset + width] for offset in offsets)
    return [(neighbour == blocks)[..., None].float() for neighbour in neighbours]


def added_to_scores(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """What attention makes of a boolean mask; made once, it serves all layers."""
    return torch.zeros_like(mask, dtype=dtype).masked_fill_(~mask, -torch.inf)


class Layer(nn.Module):
    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.mixing = LocalMixing(shape) if shape.neighbours else None
        self.attention_norm = RootMeanSquareNorm(shape.width, eps=1e-6)
        self.qkv = nn.Linear(shape.width, 3 * shape.width, bias=False)
        self.gain = nn.Parameter(torch.ones(shape.heads, 1, 1)) if shape.normed_heads else None
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        self.mlp_norm = RootMeanSquareNorm(shape.width, eps=1e-6)
        self.gate_up = nn.Linear(shape.width, 2 * shape.mlp_width, bias=False)
        self.down = nn.Linear(shape.mlp_width, shape.width, bias=False)

    def mix(self, x: Tensor, same_block: Sequence[Tensor] | None) -> Tensor:
        return x if self.mixing is None else self.mixing(x, same_block)

    def heads_of(self, x: Tensor, rope: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys, and values, each [B, H, W, d]."""
        batch, length, _ = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, self.heads, -1)
        qk, v = qkv[:, :, :2], qkv[:, :, 2]
        if self.gain is not None:  # one pass over queries and keys costs half of two
            qk = unit_size(qk, torch.finfo(torch.float32).eps)
            qk[:, :, 0].mul_(self.gain[..., 0])
        q, k = rotate(qk, *rope).transpose(1, 3).unbind(2)
        return q, k, v.transpose(1, 2)

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Add the attention output [B, H, W, d] and the MLP to the residual stream."""
        x = self.out(attended.transpose(1, 2).flatten(2)).add_(x)
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, dim=-1)
        return self.down(F.silu(gate).mul_(up)).add_(x)


def attend_packed(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, past: tuple[Tensor, Tensor]) -> Tensor:
    """Attention [n, H, W, d] of n windows over one shared prefix [H, S, d] and each over itself.

    The prefix is read once for all windows of the group instead of being copied n times. The mask is that of
    `scaled_dot_product_attention`: where to look, what to add to the scores, or None.
    """
    n, heads, width, d = q.shape
    past_k, past_v = past
    # Heads first, so that weights need not be copied for the products. q is scaled instead of the products, which are
    # more: exactly where d is a power of four (64), else with one rounding more (128).
    packed = (q * d**-0.5).transpose(0, 1).reshape(heads, n * width, d)
    over_past = (packed @ past_k.transpose(1, 2)).view(heads, n, width, -1)
    over_self = packed.view(heads, n, width, d) @ k.permute(1, 0, 3, 2)
    if mask is not None:
        mask = mask.transpose(0, 1)
        over_self = over_self.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else over_self + mask
    scores = torch.cat([over_past, over_self], -1)
    weights = scores.softmax(-1, dtype=torch.float32).to(v.dtype)  # as attention kernels do in bfloat16
    w_past, w_self = torch.split(weights, [past_k.shape[1], width], dim=-1)
    from_past = (w_past.flatten(1, 2) @ past_v).view(heads, n, width, d)
    return (from_past + w_self @ v.transpose(0, 1)).transpose(0, 1)


def attend_copies(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, copy_length: int) -> Tensor:
    """Attention [B, H, W, d] of a shared part and of the copies behind it, each over the shared part and itself."""
    if not copy_length:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    n, shared = copy_length, mask.shape[-1] - copy_length
    head_q, head_k, head_v = (x[:, :, :shared] for x in (q, k, v))
    parts = [F.scaled_dot_product_attention(head_q, head_k, head_v, attn_mask=mask[..., :shared, :shared])]
    for begin in range(shared, q.shape[2], n):
        own_q, own_k, own_v = (x[:, :, begin : begin + n] for x in (q, k, v))
        keys, values = torch.cat([head_k, own_k], 2), torch.cat([head_v, own_v], 2)
        parts.append(F.scaled_dot_product_attention(own_q, keys, values, attn_mask=mask[..., shared:, :]))
    return torch.cat(parts, 2)


class MaskedDiffusionTransformer(nn.Module):
    """Predicts the token at every masked position from both sides."""

    def __init__(self, shape: TransformerShape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab_size, shape.width)
        self.rotary = Rotary(shape.width // shape.heads, shape.rope_theta)
        self.layers: Iterable[Layer] = nn.ModuleList(Layer(shape) for _ in range(shape.layers))  # type: ignore[assignment]
        self.norm = RootMeanSquareNorm(shape.width, eps=1e-6)
        self.output_bias = nn.Parameter(torch.zeros(shape.vocab_size))
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(
        self, ids: Tensor, positions: Tensor, mask: Tensor, blocks: Tensor | None = None, copy_length: int = 0
    ) -> Tensor:
        """States [B, W, width] for training: any boolean mask [B or 1, 1, W, W], no prefix. Neighbours are mixed
        where they share one of the `blocks` [B, W]; by default all do.

        With a `copy_length` n the window ends in copies of n positions that do not see one another: all obey the last n
        rows of a mask over the part before the copies and one of them.
        """
        x = self.embedding(ids)
        rope = self.rotary(positions)
        same = same_block_masks(torch.zeros_like(ids) if blocks is None else blocks, self.shape.neighbours)
        for layer in self.layers:
            x = layer.mix(x, same)
            x = layer.finish(x, attend_copies(*layer.heads_of(x, rope), mask, copy_length))
        return self.norm(x)

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        """States [B, W, width] of windows that may continue cached prefixes, and the extended prefixes."""
        x = self.embedding(windows.ids)
        rope = self.rotary(windows.positions)
        same = same_block_masks(windows.blocks, self.shape.neighbours)
        mask = None if same is None else added_to_scores(windows.mask(), x.dtype)
        kept: list[list[tuple[Tensor, Tensor]]] = [[] for _ in windows.groups]
        for index, layer in enumerate(self.layers):
            x = layer.mix(x, same)
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
        mask: Tensor | None,
        groups: Sequence[WindowGroup],
        layer: int,
        kept: list[list[tuple[Tensor, Tensor]]],
    ) -> Tensor:
        """Attention [B, H, W, d], group by group where there is a prefix; collects keys and values to keep."""
        parts, begin = [], 0
        for group, pairs in zip(groups, kept, strict=True):
            at = slice(begin, begin + group.count)
            own_mask = None if mask is None else mask[at]
            if isinstance(group.prefix, KeyValuePrefix):
                parts.append(attend_packed(q[at], k[at], v[at], own_mask, group.prefix.layers[layer]))
            else:
                parts.append(F.scaled_dot_product_attention(q[at], k[at], v[at], attn_mask=own_mask))
            if group.keep:
                pairs.append((k[begin, :, : group.keep], v[begin, :, : group.keep]))
            begin += group.count
        return torch.cat(parts) if len(parts) > 1 else parts[0]


def _extend(group: WindowGroup, more: KeyValuePrefix) -> Prefix:
    if isinstance(group.prefix, KeyValuePrefix):
        return group.prefix.extended(more)
    return KeyValuePrefix(tuple((k.clone(), v.clone()) for k, v in more.layers))
