"""LLaDA2.0-mini: a mixture of experts with block-causal attention. Experts are stacked while they are read."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from wmbench.runtime.backbones.hf.family import Family, Layout, Piece
from wmbench.runtime.backbones.hf.keys import ConfigKeys


def settings(keys: ConfigKeys) -> dict[str, Any]:
    keys.must_be("hidden_act", "silu", default="silu")
    keys.must_be("use_bias", False, default=True)
    keys.must_be("use_qkv_bias", False, default=False)
    keys.must_be("use_qk_norm", True, default=True)
    keys.must_be("use_rmsnorm", True, default=True)
    keys.must_be("norm_head", False, default=False)
    keys.must_be("norm_softmax", False, default=False)
    keys.must_be("norm_topk_prob", True, default=True)
    keys.must_be("score_function", "sigmoid", default="sigmoid")
    keys.must_be("scoring_func", "sigmoid", default="sigmoid")
    keys.must_be("moe_router_enable_expert_bias", True, default=True)
    keys.must_be("using_split_qkv_in_self_attention", False, default=False)
    keys.must_be("num_nextn_predict_layers", 0, None, default=0)
    keys.must_be("router_dtype", "fp32", default="fp32")
    keys.must_be("tie_word_embeddings", False, default=False)
    keys.must_be("use_sliding_window", False, default=False)
    keys.skip("sliding_window", "max_window_layers")  # not read while use_sliding_window is false
    keys.skip("attention_dropout", "embedding_dropout", "output_dropout", "initializer_range", "output_router_logits")
    keys.must_be("pretraining_tp", 1, default=1)
    keys.skip("router_aux_loss_coef", "topk_method", "seq_aux", "mtp_loss_scaling_factor")
    # The published code rotates head_dim * partial_rotary_factor and sizes the shared experts by moe_intermediate_size;
    # it reads neither of these two, and the shapes of the tensors are checked in any case.
    keys.skip("rotary_dim", "moe_shared_expert_intermediate_size")
    width, heads = keys.size("hidden_size"), keys.size("num_attention_heads")
    head_width = keys.size("head_dim", width // heads)
    experts, chosen = keys.size("num_experts"), keys.size("num_experts_per_tok")
    groups, chosen_groups = keys.size("n_group", 8), keys.size("topk_group", 4)
    if experts % groups or experts < 2 * groups:
        raise keys.refusal("n_group", groups, f"{experts} experts do not make {groups} equal groups of two or more")
    if chosen_groups > groups or chosen > chosen_groups * (experts // groups):
        raise keys.refusal("topk_group", chosen_groups, f"{chosen} experts cannot be chosen from that many groups")
    return {
        "vocab_size": keys.size("vocab_size"),
        "hidden_size": width,
        "num_hidden_layers": keys.size("num_hidden_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": keys.size("num_key_value_heads"),
        "head_dim": head_width,
        "intermediate_size": keys.size("intermediate_size"),
        "moe_intermediate_size": keys.size("moe_intermediate_size"),
        "n_routed_experts": experts,
        "n_shared_experts": keys.size("num_shared_experts"),
        "num_experts_per_tok": chosen,
        "n_group": groups,
        "topk_group": chosen_groups,
        "routed_scaling_factor": keys.number("routed_scaling_factor", 2.5),
        "norm_topk_prob": chosen > 1,  # the published router leaves the weight of a single expert as it is
        "first_k_dense_replace": int(keys.number("first_k_dense_replace", 0)),
        "use_qk_norm": True,
        "attention_bias": False,
        "max_position_embeddings": keys.size("max_position_embeddings", 16384),
        "rms_norm_eps": keys.number("rms_norm_eps", 1e-5),
        "rope_parameters": keys.rope(rope_theta=10_000.0, partial_rotary_factor=0.5),
        "num_mtp_layers": 0,
        "tie_word_embeddings": False,
    }


def layout(carrier: Mapping[str, Any]) -> Layout:
    yield "model.word_embeddings.weight", (Piece("model.embed_tokens.weight"),)
    yield "model.norm.weight", (Piece("model.norm.weight"),)
    yield "lm_head.weight", (Piece("lm_head.weight"),)
    for i in range(carrier["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{layer}.{norm}.weight", (Piece(f"{layer}.{norm}.weight"),)
        yield from _attention(layer, carrier)
        if i < carrier["first_k_dense_replace"]:
            yield from _feed_forward(f"{layer}.mlp")
        else:
            yield from _experts(f"{layer}.mlp", carrier)


def _attention(layer: str, carrier: Mapping[str, Any]) -> Layout:
    queries = carrier["num_attention_heads"] * carrier["head_dim"]
    keys = carrier["num_key_value_heads"] * carrier["head_dim"]
    borders = (0, queries, queries + keys, queries + 2 * keys)
    yield (
        f"{layer}.attention.query_key_value.weight",
        tuple(
            Piece(f"{layer}.self_attn.{name}_proj.weight", (), rows)
            for name, rows in zip("qkv", pairwise(borders), strict=True)
        ),
    )
    for stored, parameter in (("dense", "o_proj"), ("query_layernorm", "q_norm"), ("key_layernorm", "k_norm")):
        yield f"{layer}.attention.{stored}.weight", (Piece(f"{layer}.self_attn.{parameter}.weight"),)


def _feed_forward(mlp: str) -> Layout:
    for name in ("gate_proj", "up_proj", "down_proj"):
        yield f"{mlp}.{name}.weight", (Piece(f"{mlp}.{name}.weight"),)


def _experts(mlp: str, carrier: Mapping[str, Any]) -> Layout:
    yield f"{mlp}.gate.weight", (Piece(f"{mlp}.gate.weight"),)
    yield f"{mlp}.gate.expert_bias", (Piece(f"{mlp}.gate.e_score_correction_bias"),)
    yield from _feed_forward(f"{mlp}.shared_experts")
    half = carrier["moe_intermediate_size"]
    for e in range(carrier["n_routed_experts"]):
        expert = f"{mlp}.experts.{e}"
        yield f"{expert}.gate_proj.weight", (Piece(f"{mlp}.experts.gate_up_proj", (e, slice(0, half))),)
        yield f"{expert}.up_proj.weight", (Piece(f"{mlp}.experts.gate_up_proj", (e, slice(half, 2 * half))),)
        yield f"{expert}.down_proj.weight", (Piece(f"{mlp}.experts.down_proj", (e,)),)


FAMILY = Family(
    name="LLaDA2.0",
    carrier="Glm4MoeForCausalLM",
    settings=settings,
    layout=layout,
    prompt="<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>{prompt}<|role_end|>"
    "<role>ASSISTANT</role>",
    mask_tokens=("<|mask|>",),
    end_tokens=("<|endoftext|>", "<|role_end|>"),
)
