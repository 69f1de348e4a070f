"""Units of texts and their embeddings: the one place where schemes and encoders meet.

Unit b of size m covers the tokens [b * m, (b + 1) * m); a short last unit is kept. Units are listed size by size.
By definition a unit is encoded as the text its ids decode to, special ids dropped. An encoder that is made for the
backbone's own tokenizer may define its embedding on the ids themselves (`WindowEncoder`), which saves decoding and
tokenising every text once per size; the two differ only in how a word that a border cuts in two is spelled, and in
units of nothing but blanks, which have a vector of their own there (detectors leave them out either way).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from wmbench.types import Encoder, Features, IntArray, TextCodec

EMPTY_TEXT = "[empty]"
"""What a text without any words is encoded as, so that every unit has a vector (the rule of DenMark's authors)."""
TEXTS_PER_CALL = 64

Ids = Sequence[int] | IntArray


@runtime_checkable
class WindowEncoder(Protocol):
    """An `Encoder` with fast paths over ids; they may be used when `shares_tokenizer` says so."""

    @property
    def dimension(self) -> int: ...

    def shares_tokenizer(self, codec: TextCodec) -> bool: ...

    def encode_ids(self, rows: Sequence[Ids]) -> npt.NDArray[np.float32]: ...

    def encode_token_windows(self, ids: Ids, starts: IntArray, ends: IntArray) -> npt.NDArray[np.float32]: ...


def unit_counts(length: int, sizes: Sequence[int]) -> IntArray:
    """How many units a text of this many tokens has at each size."""
    return -(-length // np.asarray(sizes, dtype=np.int64))


def unit_windows(length: int, sizes: Sequence[int]) -> tuple[IntArray, IntArray]:
    """First token and end of every unit of every size."""
    counts = unit_counts(length, sizes)
    size = np.repeat(np.asarray(sizes, dtype=np.int64), counts)
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    starts = number * size
    return starts, np.minimum(starts + size, length)


def distinct_ids(rows: Iterable[IntArray]) -> tuple[list[IntArray], list[int]]:
    """The rows of ids without repetitions, in the order of their first appearance, and which of them every row is."""
    place: dict[bytes, int] = {}
    index = [place.setdefault(row.tobytes(), len(place)) for row in rows]
    return [np.frombuffer(content, dtype=np.int64) for content in place], index


def embed_ids(encoder: Encoder, codec: TextCodec, rows: Sequence[Ids]) -> npt.NDArray[np.float32]:
    """[n, dimension] of units given as ids, by the fast path where the encoder has one."""
    if isinstance(encoder, WindowEncoder) and encoder.shares_tokenizer(codec):
        return encoder.encode_ids(rows)
    return encoder.encode([codec.decode(np.asarray(row).tolist()).strip() or EMPTY_TEXT for row in rows])


def embed_units(
    encoder: Encoder,
    codec: TextCodec,
    ids_per_text: Iterable[Ids],
    sizes: Sequence[int],
    dtype: npt.DTypeLike = np.float16,
) -> Features:
    """Every unit of every size of every text, packed in the order of `unit_windows`."""
    texts = [np.asarray(ids, dtype=np.int64) for ids in ids_per_text]
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    np.cumsum([unit_counts(len(ids), sizes).sum() for ids in texts], out=offsets[1:])
    values = np.empty((offsets[-1], encoder.dimension), dtype=dtype)
    fast = isinstance(encoder, WindowEncoder) and encoder.shares_tokenizer(codec)
    step = 1 if fast else TEXTS_PER_CALL  # a transformer wants many units per call, to batch and to skip equal ones
    for first in range(0, len(texts), step):
        group = texts[first : first + step]
        windows = [unit_windows(len(ids), sizes) for ids in group]
        target = values[offsets[first] : offsets[first + len(group)]]
        if isinstance(encoder, WindowEncoder) and fast:
            target[:] = encoder.encode_token_windows(group[0], *windows[0])
        else:
            rows = [ids[a:b] for ids, spans in zip(group, windows, strict=True) for a, b in zip(*spans, strict=True)]
            target[:] = embed_ids(encoder, codec, rows)
    return Features(offsets, values, np.array([len(ids) for ids in texts], dtype=np.int64))
