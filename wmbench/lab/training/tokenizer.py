"""The lab's tokenizer: cased, byte-level (so any text survives a round trip), about 4,000 pieces."""

from __future__ import annotations

from pathlib import Path

from wmbench.lab.codec import ANSWER, END, MASK, PAD, PROMPT_LAYOUT, USER
from wmbench.lab.training.corpus import TRAIN_SEEDS, documents, prompts

SPECIAL_TOKENS = [PAD, END, MASK, USER, ANSWER]

__all__ = ["END", "MASK", "PAD", "PROMPT_LAYOUT", "train_tokenizer"]


def train_tokenizer(path: Path, size: int = 4096, texts: int = 6000) -> None:
    """Train byte-level BPE on fresh lab documents and write `tokenizer.json`."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    answers = (answer for _, answer in documents(TRAIN_SEEDS[:texts]))
    tokenizer.train_from_iterator([*answers, *prompts() * 3], trainer)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tokenizer.to_str(), encoding="utf-8")
