"""A tiny tokenizer and a small encoder that need no lab weights."""

from __future__ import annotations

from pathlib import Path

import pytest

WORDS = "save money every month bake bread slowly plant a tree near the house water it often and keep the soil warm"
TEXTS = [" ".join(WORDS.split()[i : i + 9]) for i in range(12)]


@pytest.fixture(scope="session")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|pad|>", "<|mask|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([f" {text}" for text in TEXTS] * 5, trainer)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    path.write_text(tokenizer.to_str(), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def small_directory(tokenizer_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved small encoder whose residual layer is not zero."""
    import torch

    from wmbench.semantics.trainable import MiniModule

    module = MiniModule(tokenizer_file, width=16, hidden=24, seed=1)
    with torch.no_grad():
        module.outer.normal_(std=0.3, generator=torch.Generator().manual_seed(2))
        module.pooling.normal_(generator=torch.Generator().manual_seed(3))
    directory = tmp_path_factory.mktemp("small")
    module.save(directory, {"recipe": {"made": "for tests"}})
    return directory
