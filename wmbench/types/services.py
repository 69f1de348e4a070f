"""What schemes are handed: a tokenizer, encoders, the key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from wmbench.keys import SecretKey


class TextCodec(Protocol):
    """The tokenizer side of a backbone: all that detection needs."""

    @property
    def size(self) -> int:
        """Number of ids the tokenizer knows. The width of the logits may be larger."""

    @property
    def special_ids(self) -> frozenset[int]:
        """Ids without text: mask, end of text, padding, turn markers."""

    @property
    def fingerprint(self) -> str:
        """Hash of vocabulary and rules: texts tokenised under another fingerprint are not comparable."""

    def encode(self, text: str) -> list[int]:
        """Ids of plain text, without special tokens."""

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]: ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special ids dropped."""

    def encode_prompt(self, prompt: str) -> list[int]:
        """Ids of a prompt in the model's own layout (chat template)."""


class Encoder(Protocol):
    """Maps texts to unit vectors."""

    @property
    def dimension(self) -> int: ...

    @property
    def fingerprint(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """[n, dimension], L2-normalised; a row does not depend on its neighbours beyond rounding."""


@dataclass(frozen=True, slots=True)
class SchemeContext:
    """What a scheme is built with. For detection `key` may be None: `score` receives the key."""

    codec: TextCodec
    key: SecretKey | None = None
    load_encoder: Callable[[str], Encoder] | None = None
    """Encoder by registered name; loaded once per process."""
    block_length: int | None = None
    """The decoding block of the run, for schemes whose default unit is the block."""
    max_new_tokens: int = 300
