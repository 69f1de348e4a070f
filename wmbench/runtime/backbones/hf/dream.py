"""Dream-7B: Qwen2.5 without causal mask; the state of one position predicts the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmbench.runtime.backbones.hf.family import Family, Layout, Piece
from wmbench.runtime.backbones.hf.keys import ConfigKeys

_OF_A_LAYER = (
    "input_layernorm.weight",
    *(f"self_attn.{name}_proj.{kind}" for name in "qkv" for kind in ("weight", "bias")),
    "self_attn.o_proj.weight",
    "post_attention_layernorm.weight",
    *(f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
)


def settings(keys: ConfigKeys) -> dict[str, Any]:
    keys.must_be("hidden_act", "silu", default="silu")
    keys.must_be("tie_word_embeddings", False, default=False)
    keys.must_be("use_mrope", False, None, default=False)
    keys.must_be("use_sliding_window", False, default=False)
    keys.skip("sliding_window", "max_window_layers")  # not read while use_sliding_window is false
    keys.skip("attention_dropout", "initializer_range")
    layers = keys.size("num_hidden_layers", 32)
    keys.must_be("layer_types", None, ["full_attention"] * layers, default=None)
    heads = keys.size("num_attention_heads", 32)
    return {
        "vocab_size": keys.size("vocab_size"),
        "hidden_size": keys.size("hidden_size"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys.size("num_key_value_heads", heads),
        "intermediate_size": keys.size("intermediate_size"),
        "max_position_embeddings": keys.size("max_position_embeddings", 32768),
        "rms_norm_eps": keys.number("rms_norm_eps", 1e-6),
        "rope_parameters": keys.rope(rope_theta=10_000.0),
        "use_sliding_window": False,
        "tie_word_embeddings": False,
    }


def layout(carrier: Mapping[str, Any]) -> Layout:
    of_the_layers = (f"model.layers.{i}.{name}" for i in range(carrier["num_hidden_layers"]) for name in _OF_A_LAYER)
    for name in ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", *of_the_layers):
        yield name, (Piece(name),)


FAMILY = Family(
    name="Dream",
    carrier="Qwen2ForCausalLM",
    settings=settings,
    layout=layout,
    prompt="<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n{prompt}<|im_end|>\n"
    "<|im_start|>assistant\n",
    mask_tokens=("<|mask|>",),
    end_tokens=("<|endoftext|>", "<|im_end|>"),
    logit_shift=1,
    advised_length=2048,
)
