"""Arrays and JSON metadata in one .npz file: no pickle, written whole or not at all, checked when read.

`unzip -p file.npz metadata.json` shows the metadata; `numpy.load` reads the arrays.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from wmbench.disk import write_atomic
from wmbench.errors import ConfigError, IntegrityError

Arrays = dict[str, npt.NDArray[Any]]
_METADATA = "metadata.json"


def write_archive(
    path: str | os.PathLike[str], arrays: Mapping[str, npt.NDArray[Any]], metadata: Mapping[str, Any]
) -> None:
    members = {f"{name}.npy": _npy_bytes(array) for name, array in arrays.items()}
    document = {**metadata, "sha256": _digests(members)}
    members[_METADATA] = json.dumps(document, indent=1, ensure_ascii=False).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)  # its date is constant: equal content, equal bytes
    write_atomic(Path(path), buffer.getvalue())


def read_archive(path: str | os.PathLike[str]) -> tuple[Arrays, dict[str, Any]]:
    where, hint = os.fspath(path), "make the file again, or restore a copy"
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        metadata = json.loads(members.pop(_METADATA))
        intact = metadata.pop("sha256") == _digests(members)
        arrays = {name.removesuffix(".npy"): _array(data) for name, data in members.items()}
    except FileNotFoundError as error:
        raise ConfigError("the file does not exist", where=where, hint="check its name, or make it first") from error
    except IsADirectoryError as error:
        raise ConfigError("this is a folder", where=where, hint="name a file in it, such as calibration.npz") from error
    except OSError as error:
        raise IntegrityError("the file cannot be read", where=where, why=error.strerror, hint=hint) from error
    except Exception as error:  # a damaged zip, JSON or npy can raise almost anything
        raise IntegrityError(
            "the file is damaged or of another kind", where=where, why=str(error), hint=hint
        ) from error
    if not intact:
        raise IntegrityError("the file was changed after it was written", where=where, hint=hint)
    return arrays, metadata


def _digests(members: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in members.items()}


def _array(data: bytes) -> npt.NDArray[Any]:
    return np.asarray(np.load(io.BytesIO(data), allow_pickle=False))


def _npy_bytes(array: npt.NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()
