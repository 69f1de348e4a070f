"""Packed features on disk: `<name>.offsets.npy`, `<name>.values.npy`, `<name>.lengths.npy`, read by memory map.

Values are written chunk by chunk: 40,000 texts with 300 embeddings of 768 numbers each would not fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt
from filelock import FileLock

from wmbench.disk import disk_errors, make_folder, pretty_json, sync_folder, write_atomic
from wmbench.errors import IntegrityError
from wmbench.types import Features

_PARTS: Final = ("offsets", "values", "lengths")


def packed_files(name: str) -> tuple[str, ...]:
    return tuple(f"{name}.{part}.npy" for part in _PARTS)


def read_packed(folder: Path, name: str) -> Features:
    # An empty file cannot be mapped; a plain array is as good then.
    def load(file: str) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.load(folder / file, mmap_mode="r", allow_pickle=False)
        return array

    with disk_errors(folder / name, "read"):
        offsets, values, lengths = (load(file) for file in packed_files(name))
    return Features(np.asarray(offsets), values, np.asarray(lengths))


def kept_packed(
    folder: Path, name: str, made_of: Mapping[str, Any], compute: Callable[[], Iterable[Features]]
) -> Features:
    """The features that lie in the folder; computed when they are not there, or made of something else. Several
    processes may ask at once."""
    make_folder(folder)
    with FileLock(folder / f".{name}.lock"):
        done, expected = folder / f"{name}.json", pretty_json(made_of)  # written last
        if done.exists() and done.read_bytes() == expected:
            with suppress(IntegrityError, ValueError, EOFError):  # a file is missing, or cut off
                return read_packed(folder, name)
        write_packed(folder, name, compute())
        write_atomic(done, expected)
        return read_packed(folder, name)


def write_packed(folder: Path, name: str, chunks: Iterable[Features]) -> None:
    """Features of consecutive texts, appended to each other; at least one chunk."""
    offsets, lengths = [np.zeros(1, dtype=np.int64)], []
    aside = [folder / f".{file}.tmp" for file in packed_files(name)]
    with disk_errors(folder / name):
        with aside[1].open("wb") as file:
            dtype, shape = None, (0,)
            for chunk in chunks:
                values = np.ascontiguousarray(chunk.values)
                if dtype is None:
                    dtype, shape = values.dtype, (0, *values.shape[1:])
                    _write_header(file, dtype, shape)
                file.write(values.astype(dtype, copy=False).tobytes())
                offsets.append(offsets[-1][-1] + chunk.offsets[1:])
                lengths.append(chunk.lengths)
            joined = np.concatenate(offsets)
            if dtype is not None:
                file.seek(0)
                _write_header(file, dtype, (int(joined[-1]), *shape[1:]))
        for path, array in ((aside[0], joined), (aside[2], np.concatenate(lengths))):
            with path.open("wb") as file:
                np.save(file, array)
        for path, final in zip(aside, packed_files(name), strict=True):
            path.replace(folder / final)
        sync_folder(folder)


def _write_header(file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """numpy pads headers so that the first dimension can grow in place."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
