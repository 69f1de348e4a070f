"""Embeddings on disk: one append-only file per encoder, keyed by text hash.

A file is a header and records of one size: hash of the text (16 bytes), vector, checksum (4 bytes). Writers take turns
by a lock and append whole records; readers need no lock. A torn tail is cut off by the next writer, a damaged record
counts as missing, and nothing in the file is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from wmbench.errors import IntegrityError
from wmbench.types import Encoder

FOLDER_VARIABLE = "WMBENCH_EMBEDDINGS"
"""Environment variable with the folder of the caches; without it nothing is kept."""
HEADER_BYTES = 256
KEY_BYTES = 16
CHECKSUM_BYTES = 4

Precision = Literal["float32", "float16"]


class EmbeddingCache:
    """Vectors of one encoder, named by its fingerprint, by text. Several processes may use one folder."""

    def __init__(self, folder: Path, encoder: str, dimension: int, precision: Precision = "float32") -> None:
        self.dtype = np.dtype(precision).newbyteorder("<")
        self.dimension = dimension
        name = _file_name(encoder)
        self._header = _header(name, dimension, precision)
        self._path = folder / f"{name}-{precision}.embeddings"
        self._record = KEY_BYTES + self.dtype.itemsize * dimension + CHECKSUM_BYTES
        self._places: dict[bytes, int] = {}
        self._read_records = 0
        self._lock = FileLock(str(self._path) + ".lock")
        with self._disk_errors():
            folder.mkdir(parents=True, exist_ok=True)
            self._create()

    def __len__(self) -> int:
        self._refresh()
        return len(self._places)

    def get(self, texts: Sequence[str]) -> list[npt.NDArray[np.float32] | None]:
        """The vector of every text, None where there is none."""
        self._refresh()
        found: list[npt.NDArray[np.float32] | None] = []
        with self._path.open("rb") as file:
            for key in map(text_key, texts):
                place = self._places.get(key)
                found.append(None if place is None else self._vector(key, self._read(file, place)))
        return found

    def put(self, texts: Sequence[str], vectors: npt.NDArray[np.float32]) -> None:
        """Append vectors; a text that is already there is replaced."""
        if vectors.shape != (len(texts), self.dimension):
            raise ValueError(f"{len(texts)} texts, but vectors of shape {vectors.shape}")
        records = []
        for text, vector in zip(texts, vectors, strict=True):
            body = text_key(text) + vector.astype(self.dtype).tobytes()
            records.append(body + zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little"))
        with self._disk_errors(), self._lock, self._path.open("r+b") as file:
            whole = (self._path.stat().st_size - HEADER_BYTES) // self._record
            file.truncate(HEADER_BYTES + whole * self._record)  # what a killed writer left behind
            file.seek(0, 2)
            file.write(b"".join(records))

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Also of a full disk: what was kept so far stays usable."""
        try:
            yield
        except OSError as error:
            raise IntegrityError(
                f"embedding cache {str(self._path)!r} cannot be written",
                why=error.strerror or str(error),
                hint=f"its folder is named by ${FOLDER_VARIABLE}: choose another one, make room, or unset it",
            ) from error

    def _create(self) -> None:
        with self._lock:
            if not self._path.exists() or self._path.stat().st_size < HEADER_BYTES:
                self._path.write_bytes(self._header)
            with self._path.open("rb") as file:
                if file.read(HEADER_BYTES) != self._header:
                    raise IntegrityError(
                        f"embedding cache {str(self._path)!r} has a foreign header",
                        hint="delete the file; it is only a cache",
                    )

    def _refresh(self) -> None:
        """Take in records that were appended since the last look, by whomever."""
        whole = (self._path.stat().st_size - HEADER_BYTES) // self._record
        if whole <= self._read_records:
            return
        records = np.memmap(self._path, dtype=np.uint8, mode="r", offset=HEADER_BYTES, shape=(whole, self._record))
        keys = np.ascontiguousarray(records[self._read_records :, :KEY_BYTES]).view(f"V{KEY_BYTES}").ravel()
        for place, key in enumerate(keys.tolist(), start=self._read_records):
            self._places[key] = place
        self._read_records = whole

    def _read(self, file: BinaryIO, place: int) -> bytes:
        file.seek(HEADER_BYTES + place * self._record)
        return file.read(self._record)

    def _vector(self, key: bytes, record: bytes) -> npt.NDArray[np.float32] | None:
        body, checksum = record[:-CHECKSUM_BYTES], record[-CHECKSUM_BYTES:]
        if body[:KEY_BYTES] != key or zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little") != checksum:
            return None
        return np.frombuffer(body[KEY_BYTES:], dtype=self.dtype).astype(np.float32)


class CachedEncoder:
    """An encoder that looks into a cache first. What it returns does not depend on what the cache held."""

    def __init__(self, encoder: Encoder, cache: EmbeddingCache) -> None:
        self._encoder = encoder
        self._cache = cache

    @property
    def dimension(self) -> int:
        return self._encoder.dimension

    @property
    def fingerprint(self) -> str:
        return self._encoder.fingerprint

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        unique = list(dict.fromkeys(texts))
        vectors = dict(zip(unique, self._cache.get(unique), strict=True))
        missing = [text for text in unique if vectors[text] is None]
        if missing:
            # Rounded as the cache rounds, so that the first call returns what the second will.
            fresh = self._encoder.encode(missing).astype(self._cache.dtype).astype(np.float32)
            self._cache.put(missing, fresh)
            vectors.update(zip(missing, fresh, strict=True))
        found = [vector for text in texts if (vector := vectors[text]) is not None]
        return np.stack(found) if found else np.empty((0, self.dimension), dtype=np.float32)


def kept_on_disk(encoder: Encoder) -> Encoder:
    """The encoder with a cache in the folder that the environment names, if it names one."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return encoder
    return CachedEncoder(encoder, EmbeddingCache(Path(folder).expanduser(), encoder.fingerprint, encoder.dimension))


def text_key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


def _file_name(fingerprint: str) -> str:
    """The fingerprint; its hash where it is too long for a file's name, or would lead out of the folder."""
    if re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", fingerprint):
        return fingerprint
    return text_key(fingerprint).hex()


def _header(encoder: str, dimension: int, precision: Precision) -> bytes:
    facts = {"format": "wmbench-embeddings/1", "encoder": encoder, "dimension": dimension, "precision": precision}
    return json.dumps(facts).encode().ljust(HEADER_BYTES)
