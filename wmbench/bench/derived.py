"""Files that can be computed again from others, and whether they are up to date.

`derived.json` in the run folder has a stamp for every derived file: a digest of what it was computed from, and one of
its content. A file that is missing, changed, cut off or computed from something else is simply computed again; as every
computation is deterministic, that restores its bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from wmbench.disk import disk_errors, make_folder, pretty_json, write_atomic

_STAMPS: Final = "derived.json"


def digest(value: Any) -> str:
    """Of any JSON value."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=12).hexdigest()


def file_digest(path: Path) -> str | None:
    """Of a file's bytes; None when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=12)).hexdigest()
    except OSError:
        return None


def source_digest(path: Path) -> str | None:
    """The same of a file of the user, which may be large: it is read once per process while it stays as it is."""
    try:
        found = path.stat()
    except OSError:
        return None
    return _digest_of(path, found.st_ino, found.st_size, found.st_mtime_ns)


@lru_cache
def _digest_of(path: Path, *state: int) -> str | None:
    return file_digest(path)


class DerivedFiles:
    """The derived files of one folder, by their path in it. Writing is for the owner of the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        return self._folder / name

    def is_current(self, name: str, inputs: str) -> bool:
        """Whether the file was computed from these inputs and is still as it was written."""
        stamp = self._stamps().get(name)
        return stamp is not None and stamp == {"inputs": inputs, "content": file_digest(self.path(name))}

    def content_digest(self, name: str) -> str | None:
        """As stamped; the input of what is computed from this file."""
        stamp = self._stamps().get(name)
        return stamp["content"] if stamp else None

    def place(self, name: str) -> Path:
        """Where to write the file; call `stamp` afterwards."""
        path = self.path(name)
        make_folder(path.parent)
        return path

    def write(self, name: str, inputs: str, content: bytes) -> None:
        write_atomic(self.place(name), content)
        self.stamp(name, inputs)

    def stamp(self, name: str, inputs: str) -> None:
        """The file is complete. A crash before this line only means that it is computed again."""
        with disk_errors(self.path(name), "read"):
            self.path(name).stat()
        stamps = {**self._stamps(), name: {"inputs": inputs, "content": file_digest(self.path(name))}}
        write_atomic(self._folder / _STAMPS, pretty_json(stamps))

    def _stamps(self) -> Mapping[str, Any]:
        try:
            stamps = json.loads((self._folder / _STAMPS).read_bytes())
        except (OSError, ValueError):
            return {}
        return stamps if isinstance(stamps, dict) else {}
