"""Which token pairs are hits: a V x V bitmap that is never stored.

The published code keeps 2 GB of bits on disk. Here a pair's bit is computed when it is asked for. A row of the bitmap
belongs to the previous token; a hash of that token names the message bit the row carries, and a row that carries a 0 is
the complement of its base partition. So the text's hits can be read as votes for the message.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from wmbench.keys import SecretKey
from wmbench.prf import require_key
from wmbench.types import AnyArray, IntArray
from wmbench_umr.config import UmrConfig

Flags = npt.NDArray[np.bool_]


class Bitmap(ABC):
    """Hits of token pairs over a vocabulary of `size` ids, for one key and one message."""

    def __init__(self, size: int, ratio: float, message: str) -> None:
        self.size, self.ratio = size, ratio
        self.message = np.array([bit == "1" for bit in message])

    @abstractmethod
    def base(self, previous: AnyArray, current: AnyArray) -> Flags:
        """The partition without the message, for pairs of equal shape: True with probability `ratio`."""

    @abstractmethod
    def context_words(self) -> npt.NDArray[np.uint64]:
        """A pseudorandom number of every token [size]."""

    @cached_property
    def bit_index(self) -> IntArray:
        """The message bit that the row of every token carries [size]."""
        return (self.context_words() % np.uint64(len(self.message))).astype(np.int64)

    def target(self, previous: AnyArray) -> Flags:
        targets: Flags = self.message[self.bit_index[previous]]
        return targets

    def chances(self, previous: AnyArray) -> npt.NDArray[np.float64]:
        """How probable a hit is after each token without a mark: the complement of a row has 1 - ratio."""
        return np.where(self.target(previous), self.ratio, 1 - self.ratio)

    def hits(self, previous: AnyArray, current: AnyArray) -> Flags:
        """Whether pairs hit; arguments broadcast."""
        previous, current = np.broadcast_arrays(previous, current)
        if not previous.size:
            return np.empty(previous.shape, dtype=bool)  # asking costs the same for no pair as for a hundred
        return self.base(previous, current) == self.target(previous)


class KeyedBitmap(Bitmap):
    """From a secret key: one pseudorandom number per pair."""

    def __init__(self, key: SecretKey, size: int, ratio: float, message: str) -> None:
        super().__init__(size, ratio, message)
        self._pairs = key.token_prf("umr", 1, "pair")
        self._contexts = key.token_prf("umr", 1, "message index")

    def base(self, previous: AnyArray, current: AnyArray) -> Flags:
        return self._pairs.uniforms(previous, current) < self.ratio

    def context_words(self) -> npt.NDArray[np.uint64]:
        return self._contexts(np.arange(self.size))


class OfficialBitmap(Bitmap):
    """The published construction: row(prev) is drawn by a CPU generator seeded with SHA256(prev, key).

    The row's draws are sequential, so that the first `size` of them are the same at any width of the logits.
    """

    def __init__(self, official_key: int, size: int, ratio: float, message: str) -> None:
        super().__init__(size, ratio, message)
        self._official_key = official_key
        self._row = lru_cache(maxsize=2048)(self._draw_row)  # at most 2048 x size / 8 bytes: 32 MB for LLaDA

    def seed(self, previous: int) -> int:
        digest = hashlib.sha256(f"{previous}{self._official_key}".encode()).digest()
        return int.from_bytes(digest, "big") % 2**32

    def context_words(self) -> npt.NDArray[np.uint64]:
        return np.array([self.seed(token) for token in range(self.size)], dtype=np.uint64)

    def base(self, previous: AnyArray, current: AnyArray) -> Flags:
        before, after, drawn = previous.ravel(), current.ravel(), np.empty(previous.size, dtype=bool)
        order = np.argsort(before, kind="stable")  # so that a row is drawn, and its pairs are found, once
        tokens, begins = np.unique(before[order], return_index=True)
        for token, mine in zip(tokens.tolist(), np.split(order, begins[1:]), strict=True):
            byte, bit = np.divmod(after[mine], 8)
            drawn[mine] = self._row(token)[byte] >> (7 - bit).astype(np.uint8) & 1
        return drawn.reshape(previous.shape)

    def chances(self, previous: AnyArray) -> npt.NDArray[np.float64]:
        """As the published z has it: as if no row were a complement."""
        return np.full(previous.shape, self.ratio)

    def _draw_row(self, previous: int) -> npt.NDArray[np.uint8]:
        """Packed bits [ceil(size / 8)], most significant first, as in the published file."""
        import torch

        generator = torch.Generator().manual_seed(self.seed(previous))
        row = torch.bernoulli(torch.full((self.size,), self.ratio), generator=generator)
        return np.packbits(row.numpy().astype(bool))


def make_bitmap(config: UmrConfig, key: SecretKey | None, size: int) -> Bitmap:
    if config.prf == "official":
        return OfficialBitmap(config.official_key, size, config.ratio, config.message)
    return KeyedBitmap(require_key(key, "umr"), size, config.ratio, config.message)
