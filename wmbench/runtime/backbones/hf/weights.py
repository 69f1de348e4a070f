"""Streams safetensors into a carrier's parameters: every byte is read once, straight to where it stays.

Nothing is mapped into memory and no shard is held, so loading needs the size of the model plus one tensor at most (and
not even that when the stored dtype is the wanted one). Names are strict both ways, by their published names.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import BinaryIO

import torch
from torch import Tensor

from wmbench.errors import ConfigError
from wmbench.runtime.backbones.hf.directory import DOWNLOAD_AGAIN, read_json, unreadable
from wmbench.runtime.backbones.hf.family import Piece

_FLOATS = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_WHOLE = {"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8}
_DTYPES = {**_FLOATS, **_WHOLE, "BOOL": torch.bool}
"""Whole numbers are known (RoBERTa stores its position ids), but never become a parameter."""
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_LARGEST_HEADER = 100_000_000
_NOT_ITS_CONFIG = "the checkpoint does not belong to its config.json; use them as published"
_SAMPLED = 4096
"""Bytes of every tensor that its fingerprint is made of: any training moves them."""


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """Where a tensor lies."""

    file: Path
    dtype: torch.dtype
    shape: tuple[int, ...]
    offset: int
    """Of its first byte in the file."""

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Target:
    """A parameter of the carrier that is still empty."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def stored_tensors(directory: Path) -> dict[str, StoredTensor]:
    """Every tensor of a checkpoint, sharded or not, by name."""
    index = directory / _INDEX
    if index.is_file():
        return _of_shards(directory, index)
    if (directory / _SINGLE).is_file():
        return _header(directory / _SINGLE)
    others = sorted(
        path.name for pattern in ("*.safetensors", "*.bin", "*.pt", "*.pth") for path in directory.glob(pattern)
    )
    raise ConfigError(
        f"{str(directory)!r} holds no {_SINGLE} and no {_INDEX}",
        why=f"it has {', '.join(others[:3])}" if others else "it has no weights",
        hint=f"download {_INDEX}, too: it says what is in which shard"
        if any(name.endswith(".safetensors") for name in others)
        else "download the model's safetensors: other formats are not read, they may run code when they are loaded",
    )


def _of_shards(directory: Path, index: Path) -> dict[str, StoredTensor]:
    names = read_json(index).get("weight_map")
    if not isinstance(names, dict) or not all(isinstance(shard, str) for shard in names.values()):
        raise ConfigError("the index of the shards has no weight_map", where=str(index), hint=DOWNLOAD_AGAIN)
    found: dict[str, StoredTensor] = {}
    for shard in sorted(set(names.values())):
        path = directory / Path(shard).name  # an index cannot point out of its directory
        if not path.is_file():
            raise ConfigError(f"shard {shard!r} is missing", where=str(directory), hint=DOWNLOAD_AGAIN)
        inside = _header(path)
        if twice := found.keys() & inside.keys():
            raise ConfigError(f"tensor {min(twice)!r} is in two shards", where=str(path), hint=DOWNLOAD_AGAIN)
        found |= inside
    if lost := sorted(set(names) - set(found)):
        raise ConfigError(f"no shard holds tensor {lost[0]!r}", where=str(directory), hint=DOWNLOAD_AGAIN)
    return found


def _header(path: Path) -> dict[str, StoredTensor]:
    """A safetensors file: 8 bytes length, a JSON header with dtype, shape and offsets, then the data."""

    def damaged(why: str) -> ConfigError:
        return ConfigError("a safetensors file is damaged", where=str(path), why=why, hint=DOWNLOAD_AGAIN)

    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(_LARGEST_HEADER, size - 8):
                raise damaged("it has no header of a plausible length")
            header = json.loads(file.read(length).decode("utf-8"))
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise damaged(f"its header is not JSON: {error}") from error
    found = {}
    for name, entry in header.items() if isinstance(header, dict) else ():
        if name == "__metadata__":
            continue
        try:
            dtype, shape = entry["dtype"], tuple(map(int, entry["shape"]))
            begin, end = map(int, entry["data_offsets"])
            tensor = StoredTensor(path, _DTYPES[dtype], shape, 8 + length + begin)
        except KeyError as error:
            if entry.get("dtype") not in _DTYPES:
                raise _quantised(name, path, entry.get("dtype")) from error
            raise damaged(f"the entry of {name!r} is incomplete") from error
        except (TypeError, ValueError) as error:
            raise damaged(f"the entry of {name!r} is malformed") from error
        if end - begin != tensor.bytes or min(shape, default=0) < 0 or begin < 0 or tensor.offset + tensor.bytes > size:
            raise damaged(f"tensor {name!r} does not fit into the file: is it cut off?")
        found[name] = tensor
    if not found:
        raise damaged("it holds no tensor")
    return found


def _quantised(name: str, path: Path, dtype: object) -> ConfigError:
    return ConfigError(
        f"tensor {name!r} is stored as {dtype}",
        where=str(path),
        why=f"read are {', '.join(_FLOATS)}; quantised checkpoints are not",
        hint="use the checkpoint as published",
    )


def stream(
    stored: Mapping[str, StoredTensor],
    layout: Iterable[tuple[str, tuple[Piece, ...]]],
    targets: Mapping[str, Target],
    where: str,
) -> dict[str, Tensor]:
    """The carrier's state: every parameter filled completely, every stored tensor used."""
    places = dict(layout)
    _check_names(stored, places, where)
    state: dict[str, Tensor] = {}
    filled = dict.fromkeys(targets, 0)
    by_file: dict[Path, list[str]] = {}
    for name in places:
        by_file.setdefault(stored[name].file, []).append(name)
    for path, names in sorted(by_file.items()):
        with path.open("rb", buffering=0) as file:
            for name in sorted(names, key=lambda name: stored[name].offset):  # in the order of the disk
                for piece in places[name]:
                    target = targets[piece.parameter]
                    if piece.parameter not in state:
                        state[piece.parameter] = torch.empty(target.shape, dtype=target.dtype, device=target.device)
                    filled[piece.parameter] += _fill(file, name, stored[name], piece, state[piece.parameter])
    for parameter, count in filled.items():
        if count != math.prod(targets[parameter].shape):
            raise ConfigError(f"the checkpoint does not fill {parameter!r}", where=where, hint=_NOT_ITS_CONFIG)
    return state


def _check_names(stored: Mapping[str, StoredTensor], places: Mapping[str, object], where: str) -> None:
    for kind, names in (("is missing", set(places) - set(stored)), ("is not expected", set(stored) - set(places))):
        if names:
            first, *others = sorted(names)
            raise ConfigError(
                f"tensor {first!r} {kind}",
                where=where,
                why=f"and {len(others)} more: {', '.join(others[:3])}" if others else None,
                hint=_NOT_ITS_CONFIG,
            )


def _fill(file: FileIO, name: str, stored: StoredTensor, piece: Piece, parameter: Tensor) -> int:
    """Read a piece into its place; returns how many values it has."""
    if not stored.dtype.is_floating_point:
        raise _quantised(name, stored.file, stored.dtype)
    first, end = piece.rows or (0, stored.shape[0] if stored.shape else 1)
    shape = (end - first, *stored.shape[1:]) if stored.shape else ()
    part = parameter[piece.at] if piece.at else parameter
    if tuple(part.shape) != shape or (piece.rows and end > stored.shape[0]):
        raise ConfigError(
            f"tensor {name!r} has the wrong shape",
            where=str(stored.file),
            why=f"{tuple(stored.shape)} does not fit {piece.parameter} {tuple(parameter.shape)}",
            hint=_NOT_ITS_CONFIG,
        )
    straight = part.dtype == stored.dtype and part.device.type == "cpu" and part.is_contiguous()
    buffer = part if straight else torch.empty(shape, dtype=stored.dtype)
    file.seek(stored.offset + first * (stored.bytes // max(1, stored.shape[0] if stored.shape else 1)))
    _read_into(file, buffer, name, stored.file)
    if not straight:
        part.copy_(buffer)
    return part.numel()


def _read_into(file: FileIO, buffer: Tensor, name: str, path: Path) -> None:
    memory = buffer.reshape(-1).view(torch.uint8).numpy().data
    done = 0
    while done < len(memory):
        count = file.readinto(memory[done:])
        if not count:
            raise ConfigError(f"the file ends inside tensor {name!r}", where=str(path), hint=DOWNLOAD_AGAIN)
        done += count


def fingerprint(stored: Mapping[str, StoredTensor], *more: str) -> str:
    """Identity of the weights: names, shapes, dtypes and the first bytes of every tensor, however they are sharded."""
    digest = hashlib.blake2b("\0".join(more).encode(), digest_size=8)
    files: dict[Path, BinaryIO] = {}
    try:
        for name in sorted(stored):
            tensor = stored[name]
            file = files.get(tensor.file) or files.setdefault(tensor.file, tensor.file.open("rb"))
            file.seek(tensor.offset)
            digest.update(f"{name}{tensor.shape}{tensor.dtype}".encode())
            digest.update(file.read(min(_SAMPLED, tensor.bytes)))
    finally:
        for file in files.values():
            file.close()
    return digest.hexdigest()


def targets_of(
    empty: Mapping[str, Tensor], dtype: torch.dtype, device_of: Callable[[str], torch.device]
) -> dict[str, Target]:
    """What must be filled, from a model built on the meta device. Biases of a router stay in float32, as published."""
    return {
        name: Target(
            tuple(tensor.shape),
            torch.float32 if name.endswith("e_score_correction_bias") else dtype,
            device_of(name),
        )
        for name, tensor in empty.items()
    }
