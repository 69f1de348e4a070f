"""The published models from their formulas, in plain tensor operations, on tensors under their published names.

Slow and simple: one row at a time, no cache, no batch, every expert computed for every token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Weights = Mapping[str, Tensor]


def read(directory: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = {}
    for path in sorted(directory.glob("*.safetensors")):
        tensors |= load_file(path)
    return json.loads((directory / "config.json").read_text()), {n: t.float() for n, t in tensors.items()}


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def rotate(x: Tensor, theta: float, rotated: int) -> Tensor:
    """x [L, H, d]: the pair (j, j + rotated/2) turns by position * theta^(-2j/rotated)."""
    half = rotated // 2
    angle = torch.arange(len(x))[:, None, None] * theta ** (-2 * torch.arange(half) / rotated)
    left, right = x[..., :half], x[..., half:rotated]
    turned = [left * angle.cos() - right * angle.sin(), right * angle.cos() + left * angle.sin()]
    return torch.cat([*turned, x[..., rotated:]], -1)


def attend(q: Tensor, k: Tensor, v: Tensor, sees: Tensor) -> Tensor:
    """[L, H, d] from queries [L, H, d], keys and values [L, G, d]; sees [L, L]."""
    out = torch.empty_like(q)
    share = q.shape[1] // k.shape[1]
    for head in range(q.shape[1]):
        keys, values = k[:, head // share], v[:, head // share]
        scores = (q[:, head] @ keys.T) / q.shape[-1] ** 0.5
        out[:, head] = scores.masked_fill(~sees, -torch.inf).softmax(-1) @ values
    return out


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    g = x @ gate.T
    return (g * torch.sigmoid(g) * (x @ up.T)) @ down.T


def llada(ids: Tensor, config: Mapping[str, Any], w: Weights) -> Tensor:
    """Logits [L, V]; every position sees every other."""
    length, heads, eps = len(ids), config["n_heads"], config["rms_norm_eps"]
    width = config["d_model"] // heads
    x = w["model.transformer.wte.weight"][ids]
    for i in range(config["n_layers"]):
        block = f"model.transformer.blocks.{i}."
        b = {name.removeprefix(block).removesuffix(".weight"): w[name] for name in w if name.startswith(block)}
        h = rms_norm(x, b["attn_norm"], eps)
        q, k, v = ((h @ b[f"{n}_proj"].T).view(length, -1, width) for n in "qkv")
        q, k = (rotate(part, config["rope_theta"], width) for part in (q, k))
        everything = torch.ones(length, length, dtype=torch.bool)
        x = x + attend(q, k, v, everything).flatten(1) @ b["attn_out"].T
        x = x + swiglu(rms_norm(x, b["ff_norm"], eps), b["ff_proj"], b["up_proj"], b["ff_out"])
    return rms_norm(x, w["model.transformer.ln_f.weight"], eps) @ w["model.transformer.ff_out.weight"].T


def dream(ids: Tensor, config: Mapping[str, Any], w: Weights) -> Tensor:
    """Logits [L, V] aligned: position i is predicted by the output of position i - 1, position 0 by its own."""
    length, heads, eps = len(ids), config["num_attention_heads"], config["rms_norm_eps"]
    width = config["hidden_size"] // heads
    x = w["model.embed_tokens.weight"][ids]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        h = rms_norm(x, w[f"{layer}.input_layernorm.weight"], eps)
        q, k, v = (
            (h @ w[f"{layer}.self_attn.{n}_proj.weight"].T + w[f"{layer}.self_attn.{n}_proj.bias"]).view(
                length, -1, width
            )
            for n in "qkv"
        )
        q, k = (rotate(part, config["rope_theta"], width) for part in (q, k))
        everything = torch.ones(length, length, dtype=torch.bool)
        x = x + attend(q, k, v, everything).flatten(1) @ w[f"{layer}.self_attn.o_proj.weight"].T
        h = rms_norm(x, w[f"{layer}.post_attention_layernorm.weight"], eps)
        x = x + swiglu(h, *(w[f"{layer}.mlp.{n}_proj.weight"] for n in ("gate", "up", "down")))
    raw = rms_norm(x, w["model.norm.weight"], eps) @ w["lm_head.weight"].T
    return torch.cat([raw[:1], raw[:-1]])


def llada2(ids: Tensor, config: Mapping[str, Any], w: Weights, blocks: Tensor) -> Tensor:
    """Logits [L, V]; position i sees position j if blocks[j] <= blocks[i]."""
    length, eps, width = len(ids), config["rms_norm_eps"], config["head_dim"]
    heads, keys = config["num_attention_heads"], config["num_key_value_heads"]
    sees = blocks[:, None] >= blocks[None, :]
    x = w["model.word_embeddings.weight"][ids]
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        h = rms_norm(x, w[f"{layer}.input_layernorm.weight"], eps)
        qkv = (h @ w[f"{layer}.attention.query_key_value.weight"].T).view(length, -1, width)
        q, k, v = qkv.split([heads, keys, keys], dim=1)
        q = rms_norm(q, w[f"{layer}.attention.query_layernorm.weight"], eps)
        k = rms_norm(k, w[f"{layer}.attention.key_layernorm.weight"], eps)
        rotated = int(width * config["partial_rotary_factor"])
        q, k = (rotate(part, config["rope_theta"], rotated) for part in (q, k))
        x = x + attend(q, k, v, sees).flatten(1) @ w[f"{layer}.attention.dense.weight"].T
        h = rms_norm(x, w[f"{layer}.post_attention_layernorm.weight"], eps)
        mlp = f"{layer}.mlp"
        x = x + (_expert(h, mlp, w) if i < config["first_k_dense_replace"] else _mixture(h, mlp, config, w))
    return rms_norm(x, w["model.norm.weight"], eps) @ w["lm_head.weight"].T


def _expert(h: Tensor, name: str, w: Weights) -> Tensor:
    return swiglu(h, *(w[f"{name}.{n}_proj.weight"] for n in ("gate", "up", "down")))


def _mixture(h: Tensor, mlp: str, config: Mapping[str, Any], w: Weights) -> Tensor:
    """Groups are ranked by their two best biased scores; the best experts of the best groups share the token."""
    scores = torch.sigmoid(h @ w[f"{mlp}.gate.weight"].T)
    biased = scores + w[f"{mlp}.gate.expert_bias"]
    out = _expert(h, f"{mlp}.shared_experts", w)
    groups, size = config["n_group"], config["num_experts"] // config["n_group"]
    for t in range(len(h)):
        value = [
            biased[t, g * size : (g + 1) * size].sort(descending=True).values[:2].sum().item() for g in range(groups)
        ]
        best_groups = sorted(range(groups), key=lambda g: -value[g])[: config["topk_group"]]
        allowed = [e for g in best_groups for e in range(g * size, (g + 1) * size)]
        chosen = sorted(allowed, key=lambda e: -biased[t, e].item())[: config["num_experts_per_tok"]]
        total = sum(scores[t, e] for e in chosen) if len(chosen) > 1 else 1.0  # a single expert keeps its score
        for e in chosen:
            weight = config["routed_scaling_factor"] * scores[t, e] / total
            out[t] += weight * _expert(h[t : t + 1], f"{mlp}.experts.{e}", w)[0]
    return out
