"""The small encoder: token vectors, weighted mean pooling, one residual layer, L2 norm. Numpy only, no torch.

A detector reads every text once per scanned unit size (26 times), which no transformer can afford on a CPU. Here the
sum over any run of tokens is a difference of two rows of one cumulative sum, so all units of all sizes cost one pass
over the text and one small matrix product per unit.

    pooled = sum of weight[t] * vector[t] over the tokens, scaled to unit length
    output = pooled + relu(pooled @ inner + inner_bias) @ outer + outer_bias, scaled to unit length

Scaling the weighted sum to unit length makes its division by the sum of the weights needless.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from wmbench.errors import ConfigError, IntegrityError
from wmbench.runtime.codec import TokenizerCodec
from wmbench.semantics.units import EMPTY_TEXT, Ids
from wmbench.types import IntArray, TextCodec

Matrix = npt.NDArray[np.float32]

FORMAT = "wmbench-mini-encoder/1"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
UNITS_PER_BATCH = 4096
"""Units projected together: 4 MB of activations per layer, small enough to stay in the processor's cache."""
SMALLEST_NORM = 1e-9


@dataclass(frozen=True, slots=True)
class MiniWeights:
    """All parameters, float32."""

    vectors: Matrix
    """[vocabulary, width]"""
    pooling: Matrix
    """[vocabulary] logarithm of each token's weight in the mean"""
    inner: Matrix
    """[width, hidden]"""
    inner_bias: Matrix
    """[hidden]"""
    outer: Matrix
    """[hidden, width]"""
    outer_bias: Matrix
    """[width]"""


class MiniEncoder:
    """`Encoder` with two fast paths over token ids, for backbones whose tokenizer is the encoder's own."""

    def __init__(self, weights: MiniWeights, codec: TokenizerCodec, fingerprint: str) -> None:
        if len(weights.vectors) != codec.size:
            raise IntegrityError(
                "encoder and tokenizer do not belong together",
                why=f"{len(weights.vectors)} token vectors for {codec.size} tokens",
            )
        self.codec = codec
        self.fingerprint = fingerprint
        self._weights = weights
        self._table = np.exp(weights.pooling)[:, None] * weights.vectors
        self._table[sorted(codec.special_ids)] = 0.0  # special ids have no text and add nothing to a unit

    @classmethod
    def from_files(cls, weights_path: Path, tokenizer_path: Path) -> MiniEncoder:
        from safetensors import SafetensorError, safe_open

        if not weights_path.is_file():
            raise ConfigError(
                f"encoder weights {str(weights_path)!r} do not exist",
                hint="make them with `wmbench train-encoder`, or reinstall wmbench",
            )
        try:
            with safe_open(weights_path, framework="numpy") as file:
                facts: dict[str, str] = file.metadata() or {}
                if facts.get("format") != FORMAT:
                    raise ConfigError(f"{str(weights_path)!r} is no small encoder", why=f"its format is not {FORMAT}")
                names = file.keys()
                weights = MiniWeights(**{name: file.get_tensor(name).astype(np.float32) for name in names})
        except (SafetensorError, TypeError) as error:
            raise IntegrityError(f"encoder weights {str(weights_path)!r} cannot be read", why=str(error)) from error
        codec = TokenizerCodec.from_file(tokenizer_path, facts.get("prompt_layout", "{prompt}"))
        if codec.fingerprint != facts.get("tokenizer"):
            raise IntegrityError(
                f"{str(weights_path)!r} was trained with another tokenizer than {str(tokenizer_path)!r}",
                why=f"fingerprint {codec.fingerprint}, expected {facts.get('tokenizer')}",
            )
        identity = weights_path.read_bytes() + codec.fingerprint.encode() + FORMAT.encode()
        return cls(weights, codec, hashlib.blake2b(identity, digest_size=8).hexdigest())

    @classmethod
    def from_directory(cls, directory: Path) -> MiniEncoder:
        return cls.from_files(directory / WEIGHTS_FILE, directory / TOKENIZER_FILE)

    @property
    def dimension(self) -> int:
        return self._weights.vectors.shape[1]

    def encode(self, texts: Sequence[str]) -> Matrix:
        """[n, dimension] of plain texts."""
        return self.encode_ids(self.codec.encode_batch([as_inside_a_text(text) for text in texts]))

    def shares_tokenizer(self, codec: TextCodec) -> bool:
        """Whether ids of this codec may be given to the fast paths below."""
        return codec.fingerprint == self.codec.fingerprint

    def encode_ids(self, rows: Sequence[Ids]) -> Matrix:
        """[n, dimension] of units given as ids, each summed on its own: for the many small units of a decoder."""
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        flat = np.concatenate([np.empty(0, dtype=np.int64), *(np.asarray(row, dtype=np.int64) for row in rows)])
        filled = np.flatnonzero(lengths)
        sums = np.zeros((len(rows), self.dimension), dtype=np.float32)
        if len(filled):
            starts = (np.cumsum(lengths) - lengths)[filled]
            sums[filled] = np.add.reduceat(self._table[flat], starts, axis=0)
        return self._project(sums)

    def encode_token_windows(self, ids: Ids, starts: IntArray, ends: IntArray) -> Matrix:
        """[n, dimension] of the windows [start, end) of one text, whatever their overlap."""
        return self._project(self._window_sums(ids, starts, ends))

    def _window_sums(self, ids: Ids, starts: IntArray, ends: IntArray) -> Matrix:
        # float64: a difference of two long float32 sums would lose the digits of a short window.
        running = np.zeros((len(ids) + 1, self.dimension), dtype=np.float64)
        np.cumsum(self._table[np.asarray(ids, dtype=np.int64)], axis=0, out=running[1:])
        sums: Matrix = (running[ends] - running[starts]).astype(np.float32)
        return sums

    def _project(self, sums: Matrix) -> Matrix:
        output = np.empty_like(sums)
        for begin in range(0, len(sums), UNITS_PER_BATCH):
            output[begin : begin + UNITS_PER_BATCH] = self._project_batch(sums[begin : begin + UNITS_PER_BATCH])
        return output

    def _project_batch(self, sums: Matrix) -> Matrix:
        weights = self._weights
        lengths = _lengths(sums)
        pooled: Matrix = np.divide(sums, np.maximum(lengths, SMALLEST_NORM))
        hidden = pooled @ weights.inner
        hidden += weights.inner_bias
        np.maximum(hidden, 0.0, out=hidden)
        pooled += hidden @ weights.outer
        pooled += weights.outer_bias
        pooled /= np.maximum(_lengths(pooled), SMALLEST_NORM)
        wordless = lengths[:, 0] <= SMALLEST_NORM
        if wordless.any():
            pooled[wordless] = self._empty
        return pooled

    @cached_property
    def _empty(self) -> Matrix:
        """The vector of `[empty]`; that of all tokens together where the tokenizer cannot spell it."""
        spelled: Ids = self.codec.encode(as_inside_a_text(EMPTY_TEXT))
        return self.encode_ids([spelled if self._table[spelled].any() else range(self.codec.size)])[0]


def as_inside_a_text(text: str) -> str:
    """A unit's text as it stood in the middle of a text: after a space, which byte-level tokens include.

    Without it the first word of every unit would be spelled with other tokens than the same word inside a text.
    """
    text = text.strip() or EMPTY_TEXT
    return " " + text if text[0].isalnum() else text


def _lengths(rows: Matrix) -> Matrix:
    """[n, 1] Euclidean lengths."""
    squares: Matrix = np.einsum("nd,nd->n", rows, rows)
    return np.sqrt(squares)[:, None]
