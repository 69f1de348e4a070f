"""The embedding cache: exact, shared by processes, and unharmed by torn or damaged writes."""

from __future__ import annotations

import multiprocessing
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from wmbench.errors import IntegrityError
from wmbench.semantics.cache import HEADER_BYTES, CachedEncoder, EmbeddingCache, Precision

DIMENSION = 5


class CountingEncoder:
    """Vectors that follow from the text's hash, and a record of what was asked."""

    dimension = DIMENSION
    fingerprint = "counting"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.asked += texts
        return np.stack([np.random.default_rng(list(text.encode())).normal(size=DIMENSION) for text in texts]).astype(
            np.float32
        )


def file_in(folder: Path) -> Path:
    return next(folder.glob("*.embeddings"))


@pytest.mark.parametrize("fingerprint", ["owner/name@main", "../out", "x" * 300])
def test_any_fingerprint_has_a_file_in_the_folder(tmp_path: Path, fingerprint: str) -> None:
    """Encoders of other packages may call themselves anything."""
    folder = tmp_path / "cache"
    for _ in range(2):  # made, then opened
        EmbeddingCache(folder, fingerprint, DIMENSION)
    assert len(list(folder.glob("*.embeddings"))) == 1
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_the_same_vectors_with_an_empty_and_a_full_cache(tmp_path: Path, precision: Precision) -> None:
    inner = CountingEncoder()
    texts = ["one", "two", "one", "", "ünï"]
    first = CachedEncoder(inner, EmbeddingCache(tmp_path, "e", DIMENSION, precision)).encode(texts)
    second = CachedEncoder(inner, EmbeddingCache(tmp_path, "e", DIMENSION, precision)).encode(texts)
    np.testing.assert_array_equal(first, second)
    assert inner.asked == ["one", "two", "", "ünï"]
    if precision == "float32":
        np.testing.assert_array_equal(first, CountingEncoder().encode(texts))
    assert CachedEncoder(inner, EmbeddingCache(tmp_path, "e", DIMENSION)).encode([]).shape == (0, DIMENSION)


def test_encoders_do_not_share_vectors(tmp_path: Path) -> None:
    EmbeddingCache(tmp_path, "first", DIMENSION).put(["text"], np.ones((1, DIMENSION), np.float32))
    assert EmbeddingCache(tmp_path, "second", DIMENSION).get(["text"]) == [None]


@pytest.mark.parametrize("lost", [1, 3, 20, 39])
def test_a_torn_write_is_dropped(tmp_path: Path, lost: int) -> None:
    vectors = np.arange(15, dtype=np.float32).reshape(3, DIMENSION)
    EmbeddingCache(tmp_path, "e", DIMENSION).put(["a", "b", "c"], vectors)
    path = file_in(tmp_path)
    path.write_bytes(path.read_bytes()[:-lost])
    cache = EmbeddingCache(tmp_path, "e", DIMENSION)
    a, b, c = cache.get(["a", "b", "c"])
    assert a is not None
    assert b is not None
    assert c is None
    cache.put(["c"], vectors[2:])
    np.testing.assert_array_equal(np.stack([v for v in cache.get(["a", "b", "c"]) if v is not None]), vectors)


def test_a_damaged_record_counts_as_missing(tmp_path: Path) -> None:
    vectors = np.ones((2, DIMENSION), np.float32)
    EmbeddingCache(tmp_path, "e", DIMENSION).put(["a", "b"], vectors)
    path = file_in(tmp_path)
    data = bytearray(path.read_bytes())
    data[HEADER_BYTES + 20] ^= 1
    path.write_bytes(bytes(data))
    cache = EmbeddingCache(tmp_path, "e", DIMENSION)
    assert cache.get(["a"]) == [None]
    assert cache.get(["b"])[0] is not None


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    EmbeddingCache(tmp_path, "e", DIMENSION)
    path = file_in(tmp_path)
    path.write_bytes(b"x" * 1000)
    with pytest.raises(IntegrityError, match="foreign header"):
        EmbeddingCache(tmp_path, "e", DIMENSION)


def test_disk_errors_name_the_variable(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(IntegrityError, match="WMBENCH_EMBEDDINGS"):
        EmbeddingCache(tmp_path / "taken", "e", 4)
    cache = EmbeddingCache(tmp_path / "kept", "e", 4)
    shutil.rmtree(tmp_path / "kept")
    with pytest.raises(IntegrityError, match="cannot be written"):
        cache.put(["a"], np.ones((1, 4), np.float32))


def write_some(folder: Path, start: int) -> None:
    cache = EmbeddingCache(folder, "counting", DIMENSION)
    for number in range(start, start + 40):
        CachedEncoder(CountingEncoder(), cache).encode([str(number)])


def test_several_processes_may_write(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=write_some, args=(tmp_path, start)) for start in (0, 20, 40)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    names = [str(number) for number in range(80)]
    inner = CountingEncoder()
    found = CachedEncoder(inner, EmbeddingCache(tmp_path, "counting", DIMENSION)).encode(names)
    assert inner.asked == []
    np.testing.assert_array_equal(found, CountingEncoder().encode(names))
