"""Attention and experts of the carriers, plugged into transformers under the name `wmbench`.

The carriers compute norms, projections and rotations themselves; here queries meet keys. Windows may continue a cached
prefix; the candidates of one row share its prefix, which is read once for all of them.
Shapes: B windows, H query heads, G key heads, W positions, d head width, S cached positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from wmbench.runtime.backbone import Prefix, WindowGroup, safe_rows
from wmbench.runtime.backbones.transformer import KeyValuePrefix, attend_packed

NAME = "wmbench"


class WindowCache:
    """What one forward needs to know of prefixes, and the keys and values that it leaves behind."""

    def __init__(self, groups: Sequence[WindowGroup]) -> None:
        self.groups = groups
        self._kept: list[list[tuple[Tensor, Tensor]]] = [[] for _ in groups]

    def keep(self, group: int, keys: Tensor, values: Tensor) -> None:
        """Called layer after layer; keys and values [G, kept positions, d]."""
        self._kept[group].append((keys.clone(), values.clone()))  # the batch they were computed in can go

    def prefixes(self) -> list[Prefix | None]:
        """One extended prefix per group that keeps something."""
        extended: list[Prefix | None] = []
        for group, layers in zip(self.groups, self._kept, strict=True):
            if not group.keep:
                extended.append(None)
                continue
            more = KeyValuePrefix(tuple(layers))
            extended.append(group.prefix.extended(more) if isinstance(group.prefix, KeyValuePrefix) else more)
        return extended

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """[B, H, W, d], group by group."""
        parts, begin = [], 0
        for number, group in enumerate(self.groups):
            at = slice(begin, begin + group.count)
            q, k, v = query[at], _repeated(key[at], query), _repeated(value[at], query)
            if isinstance(group.prefix, KeyValuePrefix):
                past_k, past_v = (_repeated(past[None], query)[0] for past in group.prefix.layers[layer])
                parts.append(attend_packed(q, k, v, mask[at], (past_k, past_v)))
            else:
                parts.append(F.scaled_dot_product_attention(q, k, v, attn_mask=mask[at]))
            if group.keep:
                self.keep(number, key[begin, :, : group.keep], value[begin, :, : group.keep])
            begin += group.count
        return torch.cat(parts) if len(parts) > 1 else parts[0]


def _repeated(keys: Tensor, query: Tensor) -> Tensor:
    """[n, G, S, d] as [n, H, S, d]: neighbouring query heads share a key head."""
    n, groups, length, width = keys.shape
    share = query.shape[1] // groups
    if share == 1:
        return keys
    return keys[:, :, None].expand(n, groups, share, length, width).reshape(n, groups * share, length, width)


def attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    window_cache: WindowCache | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """The interface of transformers: [B, H, W, d] in, [B, W, H, d] out. The mask is boolean and four-dimensional."""
    if window_cache is None:
        key, value = _repeated(key, query), _repeated(value, query)
        attended = F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask)
    else:
        attended = window_cache.attend(module.layer_idx, query, key, value, attention_mask)
    return attended.transpose(1, 2).contiguous(), None


def experts(self: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """Experts one by one, in order, each on a safe number of rows: on a CPU a token's result must not depend on how
    many others chose the same expert."""
    result = torch.zeros_like(hidden_states)
    safe = safe_rows(hidden_states.device)
    for expert in sorted(set(top_k_index.flatten().tolist())):
        tokens, places = torch.where(top_k_index == expert)
        rows = hidden_states[tokens]
        if len(rows) < safe:
            rows = torch.cat([rows, rows[-1:].expand(safe - len(rows), -1)])
        gate, up = F.linear(rows, self.gate_up_proj[expert]).chunk(2, dim=-1)
        done = F.linear(self.act_fn(gate) * up, self.down_proj[expert])[: len(tokens)]
        result.index_add_(0, tokens, (done * top_k_weights[tokens, places, None]).to(result.dtype))
    return result
