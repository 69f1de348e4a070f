"""The contract of a scheme on the embedded model, which is trained: less entropy to hide in than the tiny ones have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from wmbench.lab.codec import lab_codec
from wmbench.lab.datasets import null_text, prompts
from wmbench.runtime.settings import Decoding
from wmbench.testing.harness import SHORT
from wmbench.testing.schemes import SchemeContract
from wmbench.types import Sample

_NULL_SEEDS = 50_000_000
"""The first seed of documents for these tests."""


class MiniContract(SchemeContract):
    """Texts are longer than on the tiny models. Blocks are the paper's 25, not the lab's five: a mark in the order of
    decoding (DGMark) needs places to choose from, and so few tokens must show it."""

    attentions = ("mini", "mini-full")
    long: ClassVar[Decoding] = SHORT.model_copy(update={"max_new_tokens": 64, "block_length": 25})

    @staticmethod
    def samples(count: int) -> list[Sample]:
        return prompts("finance", count)

    @staticmethod
    def texts(lengths: Sequence[int], seed: int) -> list[str]:
        """Beginnings of lab documents."""
        codec, whole = lab_codec(), lab_texts(len(lengths), seed)
        return [codec.decode(codec.encode(text)[:n]) for n, text in zip(lengths, whole, strict=True)]


def lab_texts(count: int, seed: int = 0) -> list[str]:
    """Whole documents of the lab that nobody marked."""
    first = _NULL_SEEDS + 100_000 * seed
    return [null_text(first + i).text for i in range(count)]
