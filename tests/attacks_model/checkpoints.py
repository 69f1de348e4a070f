"""Tiny random T5 and Pegasus checkpoints: nonsense through the code paths of the real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WORDS = "the river rises in spring and floods the meadows save a little every month small sums grow"
NAMELESS = 12
"""Ids of the model beyond its tokenizer, made likely: whoever forgets to leave them out produces nothing."""


def make_t5(folder: Path) -> Path:
    import torch
    from transformers import T5Config, T5ForConditionalGeneration

    size = _save_tokenizer(folder)
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2}
    config = T5Config(
        vocab_size=size + NAMELESS, **sizes, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
        tie_word_embeddings=False,
    )  # fmt: skip
    model = T5ForConditionalGeneration(config)
    _randomise(model)
    with torch.no_grad():
        model.lm_head.weight[:2] = 0  # padding and the end are unlikely, so outputs are not empty
        model.lm_head.weight[size:] *= 30
    model.save_pretrained(folder)
    return folder


def make_pegasus(folder: Path) -> Path:
    from transformers import PegasusConfig, PegasusForConditionalGeneration

    size = _save_tokenizer(folder)
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
    config = PegasusConfig(
        vocab_size=size, **sizes, encoder_attention_heads=2, decoder_attention_heads=2, max_position_embeddings=512,
        pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, forced_eos_token_id=1,
    )  # fmt: skip
    model = PegasusForConditionalGeneration(config)
    _randomise(model)
    model.save_pretrained(folder)
    return folder


def _randomise(model: Any) -> None:
    """Large enough that outputs depend on the input."""
    import torch

    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.5, generator=generator)


def _save_tokenizer(folder: Path) -> int:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([f" {word}" for word in WORDS.split()] * 5, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    fast.save_pretrained(folder)
    return tokenizer.get_vocab_size()
