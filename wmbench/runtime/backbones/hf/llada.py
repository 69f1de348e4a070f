"""LLaDA-8B and LLaDA-1.5: a LLaMA without causal mask, under OLMo's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmbench.runtime.backbones.hf.family import Family, Layout, Piece
from wmbench.runtime.backbones.hf.keys import ConfigKeys

_OF_THE_MODEL = {
    "model.transformer.wte.weight": "model.embed_tokens.weight",
    "model.transformer.ln_f.weight": "model.norm.weight",
    "model.transformer.ff_out.weight": "lm_head.weight",
}
_OF_A_BLOCK = {
    "attn_norm": "input_layernorm",
    "q_proj": "self_attn.q_proj",
    "k_proj": "self_attn.k_proj",
    "v_proj": "self_attn.v_proj",
    "attn_out": "self_attn.o_proj",
    "ff_norm": "post_attention_layernorm",
    "ff_proj": "mlp.gate_proj",
    "up_proj": "mlp.up_proj",
    "ff_out": "mlp.down_proj",
}


def settings(keys: ConfigKeys) -> dict[str, Any]:
    # A missing key means the default of the published code, which is often not what the published models use.
    keys.must_be("block_type", "llama", default="sequential")
    keys.must_be("block_group_size", 1, default=1)
    keys.must_be("activation_type", "silu", default="swiglu")
    keys.must_be("layer_norm_type", "rms", default="default")
    keys.must_be("layer_norm_with_affine", True, default=True)
    keys.must_be("bias_for_layer_norm", False, None, default=None)
    keys.must_be("attention_layer_norm", False, default=False)
    keys.must_be("include_bias", False, default=False)
    keys.must_be("include_qkv_bias", False, default=False)
    keys.must_be("weight_tying", False, default=True)
    keys.must_be("scale_logits", False, default=False)
    keys.must_be("input_emb_norm", False, default=False)
    keys.must_be("alibi", False, default=False)
    keys.must_be("rope", True, default=False)
    keys.must_be("clip_qkv", None, default=None)
    keys.must_be("multi_query_attention", None, False, default=None)
    # Frequencies are float32 in any case; whether the rotation itself is decides no more than rounding in bfloat16.
    keys.skip("rope_full_precision", "alibi_bias_max", "attention_layer_norm_with_affine", "flash_attention")
    keys.skip("attention_dropout", "embedding_dropout", "residual_dropout", "precision")
    keys.skip("tie_word_embeddings")  # the published code asks weight_tying instead
    keys.skip("init_cutoff_factor", "init_device", "init_fn", "init_std")
    width, heads = keys.size("d_model"), keys.size("n_heads")
    vocabulary = keys.size("vocab_size")
    rows = keys.size("embedding_size", vocabulary)
    if rows < vocabulary:
        raise keys.refusal("embedding_size", rows, f"there are {vocabulary} tokens")
    return {
        "vocab_size": rows,
        "hidden_size": width,
        "num_hidden_layers": keys.size("n_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": keys.size("n_kv_heads", heads),
        "intermediate_size": keys.size("mlp_hidden_size", int(keys.number("mlp_ratio", 4)) * width),
        "max_position_embeddings": keys.size("max_sequence_length", 1024),
        "rms_norm_eps": keys.number("rms_norm_eps", 1e-5),
        "rope_parameters": keys.rope(rope_theta=10_000.0),
        "tie_word_embeddings": False,
    }


def layout(carrier: Mapping[str, Any]) -> Layout:
    for stored, parameter in _OF_THE_MODEL.items():
        yield stored, (Piece(parameter),)
    for i in range(carrier["num_hidden_layers"]):
        for stored, parameter in _OF_A_BLOCK.items():
            yield f"model.transformer.blocks.{i}.{stored}.weight", (Piece(f"model.layers.{i}.{parameter}.weight"),)


FAMILY = Family(
    name="LLaDA",
    carrier="LlamaForCausalLM",
    settings=settings,
    layout=layout,
    prompt="<|startoftext|><|start_header_id|>user<|end_header_id|>\n\n{prompt}<|eot_id|>"
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    mask_tokens=("<|mdm_mask|>", "[MDM_MASK]", "<|mask|>"),
    end_tokens=("<|endoftext|>", "<|eot_id|>"),
    trims_prompt=True,
)
