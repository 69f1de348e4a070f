"""Tiny random checkpoints in the published layouts: names, shapes and configuration keys of the real models.

    python -m wmbench.testing.checkpoints llada /tmp/tiny-llada

They write nonsense, through exactly the code paths of the real weights. Special ids are where the tokenizer puts them,
not where the real models have them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

_TEXT = (
    "The river rises in spring and floods the lower fields. Save a little every month, please. A plan that is easy to "
    "follow beats a clever one. Bake the bread slowly, and let it rest. Which of these would you choose, and why?"
)
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class TinyKind:
    """How to make one family's tiny checkpoint."""

    config: Callable[[int, Mapping[str, int]], dict[str, Any]]
    """From the width of the logits and the special ids."""
    shapes: Callable[[Mapping[str, Any]], Shapes]
    special_tokens: tuple[str, ...]
    tokenizer_fields: Mapping[str, Any]


def make_checkpoint(
    kind: str,
    directory: Path,
    *,
    seed: int = 0,
    shards: int = 1,
    dtype: torch.dtype = torch.float32,
    first_special: bool = False,
    overrides: Mapping[str, Any] | None = None,
) -> Path:
    """Write tokenizer, configuration and random weights. `first_special` puts the special ids before the words."""
    made = KINDS[kind]
    directory.mkdir(parents=True, exist_ok=True)
    ids, size = _write_tokenizer(directory, made, first_special, with_json=kind != "dream")
    config = {**made.config(size + 5, ids), **(overrides or {})}
    (directory / "config.json").write_text(json.dumps(config, indent=2))
    write_weights(directory, random_tensors(made.shapes(config), seed, dtype), shards)
    return directory


def random_tensors(shapes: Shapes, seed: int, dtype: torch.dtype) -> Iterator[tuple[str, Tensor]]:
    """Matrices that keep the size of what they act on, and vectors around one (norms) or zero (biases)."""
    generator = torch.Generator().manual_seed(seed)
    for name, shape in shapes.items():
        values = torch.randn(shape, generator=generator)
        if len(shape) == 2:
            # Embeddings and the head are larger, so that the tokens matter and the distribution is not flat.
            values *= 1.0 if "wte" in name or "embed" in name else 1.5 * shape[1] ** -0.5
        else:
            values = 0.1 * values + (0.0 if "bias" in name else 1.0)
        yield name, values.to(dtype)


def write_weights(directory: Path, tensors: Iterator[tuple[str, Tensor]], shards: int) -> None:
    from safetensors.torch import save_file

    everything = dict(tensors)
    if shards == 1:
        save_file(everything, directory / "model.safetensors", {"format": "pt"})
        return
    weight_map = {name: f"model-{i % shards + 1:05d}-of-{shards:05d}.safetensors" for i, name in enumerate(everything)}
    for shard in sorted(set(weight_map.values())):
        save_file({name: everything[name] for name, at in weight_map.items() if at == shard}, directory / shard)
    total = sum(tensor.nbytes for tensor in everything.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))


def _write_tokenizer(
    directory: Path, made: TinyKind, first_special: bool, with_json: bool
) -> tuple[dict[str, int], int]:
    """A byte-level tokenizer; ids of the special tokens, and the number of ids."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    before = list(made.special_tokens) if first_special else []
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        special_tokens=before,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator([_TEXT] * 5, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in made.special_tokens])
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    ids = {token: vocabulary[token] for token in made.special_tokens}
    fields = dict(made.tokenizer_fields)
    shape = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    in_order = sorted(ids.items(), key=lambda pair: pair[1])
    fields["added_tokens_decoder"] = {str(i): {"content": token, **shape} for token, i in in_order}
    (directory / "tokenizer_config.json").write_text(json.dumps(fields, indent=2))
    if with_json:
        tokenizer.save(str(directory / "tokenizer.json"))
    else:  # as Dream ships it
        tokenizer.model.save(str(directory))
    return ids, len(vocabulary)


def _llada_config(width: int, ids: Mapping[str, int]) -> dict[str, Any]:
    return {
        **{"activation_type": "silu", "alibi": False, "alibi_bias_max": 8.0, "architectures": ["LLaDAModelLM"]},
        **{"attention_dropout": 0.0, "attention_layer_norm": False, "attention_layer_norm_with_affine": True},
        **{"bias_for_layer_norm": False, "block_group_size": 1, "block_type": "llama", "d_model": 64},
        **{"embedding_dropout": 0.0, "embedding_size": width, "eos_token_id": ids["<|endoftext|>"]},
        **{"flash_attention": False, "include_bias": False, "include_qkv_bias": False, "init_cutoff_factor": None},
        **{"init_device": "meta", "init_fn": "mitchell", "init_std": 0.02, "input_emb_norm": False},
        **{"layer_norm_type": "rms", "layer_norm_with_affine": True, "mask_token_id": ids["<|mdm_mask|>"]},
        **{"max_sequence_length": 512, "mlp_hidden_size": 96, "mlp_ratio": 4, "model_type": "llada"},
        **{"multi_query_attention": None, "n_heads": 4, "n_kv_heads": 4, "n_layers": 2},
        **{"pad_token_id": ids["<|endoftext|>"], "precision": "amp_bf16", "residual_dropout": 0.0},
        **{"rms_norm_eps": 1e-5, "rope": True, "rope_full_precision": True, "rope_theta": 500000.0},
        **{"scale_logits": False, "transformers_version": "4.46.3", "use_cache": False, "vocab_size": width},
        "weight_tying": False,
    }


def _llada_shapes(config: Mapping[str, Any]) -> Shapes:
    width, hidden, rows = config["d_model"], config["mlp_hidden_size"], config["embedding_size"]
    keys = config["n_kv_heads"] * width // config["n_heads"]
    shapes: Shapes = {"model.transformer.wte.weight": (rows, width)}
    for i in range(config["n_layers"]):
        block = f"model.transformer.blocks.{i}"
        shapes |= {f"{block}.{name}.weight": (width,) for name in ("attn_norm", "ff_norm")}
        shapes |= {f"{block}.{name}.weight": (width, width) for name in ("q_proj", "attn_out")}
        shapes |= {f"{block}.{name}.weight": (keys, width) for name in ("k_proj", "v_proj")}
        shapes |= {f"{block}.{name}.weight": (hidden, width) for name in ("ff_proj", "up_proj")}
        shapes[f"{block}.ff_out.weight"] = (width, hidden)
    return shapes | {"model.transformer.ln_f.weight": (width,), "model.transformer.ff_out.weight": (rows, width)}


def _dream_config(width: int, ids: Mapping[str, int]) -> dict[str, Any]:
    return {
        **{"architectures": ["DreamModel"], "attention_dropout": 0.0, "bos_token_id": ids["<|endoftext|>"]},
        **{"eos_token_id": ids["<|endoftext|>"], "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02},
        **{"intermediate_size": 96, "mask_token_id": ids["<|mask|>"], "max_position_embeddings": 131072},
        **{"max_window_layers": 28, "model_type": "Dream", "num_attention_heads": 4, "num_hidden_layers": 2},
        **{"num_key_value_heads": 2, "pad_token_id": ids["<|endoftext|>"], "rms_norm_eps": 1e-6},
        **{"rope_scaling": None, "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False},
        **{"torch_dtype": "bfloat16", "transformers_version": "4.46.2", "use_cache": True, "use_mrope": False},
        **{"use_sliding_window": False, "vocab_size": width},
    }


def _dream_shapes(config: Mapping[str, Any]) -> Shapes:
    width, hidden, rows = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    keys = config["num_key_value_heads"] * width // config["num_attention_heads"]
    shapes: Shapes = {"model.embed_tokens.weight": (rows, width)}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        shapes |= {f"{layer}.{name}.weight": (width,) for name in ("input_layernorm", "post_attention_layernorm")}
        for name, out in (("q", width), ("k", keys), ("v", keys)):
            shapes[f"{layer}.self_attn.{name}_proj.weight"] = (out, width)
            shapes[f"{layer}.self_attn.{name}_proj.bias"] = (out,)
        shapes[f"{layer}.self_attn.o_proj.weight"] = (width, width)
        shapes |= _feed_forward(f"{layer}.mlp", width, hidden)
    return shapes | {"model.norm.weight": (width,), "lm_head.weight": (rows, width)}


def _llada2_config(width: int, ids: Mapping[str, int]) -> dict[str, Any]:
    return {
        **{"architectures": ["LLaDA2MoeModelLM"], "attention_dropout": 0.0, "num_hidden_layers": 3, "hidden_size": 64},
        **{"intermediate_size": 96, "first_k_dense_replace": 1, "hidden_act": "silu"},
        **{"max_position_embeddings": 16384, "model_type": "llada2_moe", "moe_intermediate_size": 32},
        **{"norm_topk_prob": True, "num_experts_per_tok": 4, "norm_head": False, "num_attention_heads": 4},
        **{"num_experts": 16, "num_key_value_heads": 2, "rope_theta": 600000, "rope_scaling": None},
        **{"tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.52.3"},
        **{"use_bias": False, "use_rmsnorm": True, "rms_norm_eps": 1e-6, "head_dim": 24, "num_shared_experts": 1},
        **{"use_cache": False, "use_qkv_bias": False, "embedding_dropout": 0.0, "norm_softmax": False},
        **{"output_dropout": 0.0, "vocab_size": width, "rotary_dim": 12, "using_split_qkv_in_self_attention": False},
        **{"router_dtype": "fp32", "moe_router_enable_expert_bias": True, "routed_scaling_factor": 2.5},
        **{"n_group": 4, "topk_group": 2, "score_function": "sigmoid", "initializer_range": 0.02},
        **{"max_window_layers": 28, "output_router_logits": False, "pad_token_id": ids["<|endoftext|>"]},
        **{"partial_rotary_factor": 0.5, "use_sliding_window": False, "sliding_window": 4096},
    }


def _llada2_shapes(config: Mapping[str, Any]) -> Shapes:
    width, rows, head = config["hidden_size"], config["vocab_size"], config["head_dim"]
    heads, keys = config["num_attention_heads"], config["num_key_value_heads"]
    shapes: Shapes = {"model.word_embeddings.weight": (rows, width)}
    for i in range(config["num_hidden_layers"]):
        layer, mlp = f"model.layers.{i}", f"model.layers.{i}.mlp"
        shapes |= {f"{layer}.{name}.weight": (width,) for name in ("input_layernorm", "post_attention_layernorm")}
        shapes[f"{layer}.attention.query_key_value.weight"] = ((heads + 2 * keys) * head, width)
        shapes[f"{layer}.attention.dense.weight"] = (width, heads * head)
        shapes |= {f"{layer}.attention.{name}_layernorm.weight": (head,) for name in ("query", "key")}
        if i < config["first_k_dense_replace"]:
            shapes |= _feed_forward(mlp, width, config["intermediate_size"])
            continue
        shapes[f"{mlp}.gate.weight"] = (config["num_experts"], width)
        shapes[f"{mlp}.gate.expert_bias"] = (config["num_experts"],)
        small = config["moe_intermediate_size"]
        shapes |= _feed_forward(f"{mlp}.shared_experts", width, small * config["num_shared_experts"])
        for e in range(config["num_experts"]):
            shapes |= _feed_forward(f"{mlp}.experts.{e}", width, small)
    return shapes | {"model.norm.weight": (width,), "lm_head.weight": (rows, width)}


def _feed_forward(name: str, width: int, hidden: int) -> Shapes:
    return {
        f"{name}.gate_proj.weight": (hidden, width),
        f"{name}.up_proj.weight": (hidden, width),
        f"{name}.down_proj.weight": (width, hidden),
    }


KINDS: dict[str, TinyKind] = {
    "llada": TinyKind(
        _llada_config,
        _llada_shapes,
        ("<|startoftext|>", "<|endoftext|>", "<|mdm_mask|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
    ),
    "dream": TinyKind(
        _dream_config,
        _dream_shapes,
        ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|beginoftext|>", "<|mask|>"),
        {
            "bos_token": "<|beginoftext|>",
            "eos_token": "<|endoftext|>",
            "mask_token": "<|mask|>",
            "pad_token": "<|endoftext|>",
            "tokenizer_class": "DreamTokenizer",
        },
    ),
    "llada2": TinyKind(
        _llada2_config,
        _llada2_shapes,
        ("<|startoftext|>", "<|endoftext|>", "<|mask|>", "<role>", "</role>", "<|role_end|>"),
        {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"},
    ),
}

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in KINDS:
        sys.exit(f"usage: python -m wmbench.testing.checkpoints {{{','.join(KINDS)}}} DIRECTORY")
    print(make_checkpoint(sys.argv[1], Path(sys.argv[2])))
