"""Small stand-ins for the expensive parts: a key, an encoder, prompts and texts in the words of the tiny backbones."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import numpy.typing as npt

from wmbench.keys import SecretKey
from wmbench.types import Sample

if TYPE_CHECKING:
    from wmbench.runtime.backbone import Backbone

_FIRST_WORD, _LAST_WORD = 3, 60
"""The toy tokenizer's words are w3 .. w60 (`wmbench.runtime.backbones.tiny`)."""


def tiny_backbone(attention: Literal["full", "block"] = "full") -> Backbone:
    """A random transformer that writes nonsense through the code paths of a real model."""
    from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig

    return cast("Backbone", TinyBackbone(TinyConfig(attention=attention)))


@lru_cache(maxsize=4)
def backbone_named(name: str) -> Backbone:
    """`full` and `block` are the tiny ones; other names those of the embedded model."""
    if name in ("full", "block"):
        return tiny_backbone(cast('Literal["full", "block"]', name))
    from wmbench.runtime.backbones.mini import MiniBackbone
    from wmbench.runtime.backbones.mini_settings import MiniConfig

    return cast("Backbone", MiniBackbone(MiniConfig(attention="full" if name == "mini-full" else "block")))


def toy_key(label: str = "") -> SecretKey:
    """One of many fixed keys, by label. They are public, hence only for tests."""
    return SecretKey.from_hex(hashlib.sha256(f"wmbench test key {label}".encode()).hexdigest())


def toy_texts(lengths: Sequence[int], seed: int = 0) -> list[str]:
    """Texts of independent, uniformly drawn toy words, one per length."""
    draw = np.random.default_rng(seed)
    return [" ".join(f"w{i}" for i in draw.integers(_FIRST_WORD, _LAST_WORD + 1, length)) for length in lengths]


def toy_samples(count: int, prefix: str = "sample") -> list[Sample]:
    """Prompts of different lengths, so that rows of a batch are ragged."""
    prompts = toy_texts([1 + 5 * i % 13 for i in range(count)], seed=1)
    return [Sample(f"{prefix}-{i}", prompt, "toy", i) for i, prompt in enumerate(prompts)]


class ToyEncoder:
    """A bag of words on the sphere: every word has a random direction, a text is the direction of their sum."""

    dimension = 16
    fingerprint = "toy-encoder-1"

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        sums = np.array([self._sum(text) for text in texts]).reshape(len(texts), self.dimension)
        return (sums / np.linalg.norm(sums, axis=1, keepdims=True)).astype(np.float32)

    def _sum(self, text: str) -> npt.NDArray[np.float64]:
        # The empty word is always there, so that a text without words has a direction, too.
        return np.sum([_direction(word, self.dimension) for word in ["", *text.split()]], axis=0)


@lru_cache(maxsize=4096)
def _direction(word: str, dimension: int) -> npt.NDArray[np.float64]:
    digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "little")).standard_normal(dimension)
