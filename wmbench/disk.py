"""Writing files so that a crash, a full disk or a power failure never leaves half of one."""

from __future__ import annotations

import errno
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from wmbench.errors import IntegrityError

_NEXT_STEPS: Final = {
    errno.ENOSPC: "free some space, then run the same command again: it resumes",
    errno.EDQUOT: "free some of your quota, then run the same command again: it resumes",
    errno.EROFS: "choose a folder on a writable disk with --output",
    errno.EACCES: "make the folder writable for you, or choose another one with --output",
    errno.EPERM: "make the folder writable for you, or choose another one with --output",
    errno.ENOENT: "choose another folder, that of a run with --output",
    errno.ENOTDIR: "a file stands where a folder is needed: choose another folder, that of a run with --output",
    errno.EEXIST: "a file stands where a folder is needed: choose another folder, that of a run with --output",
}


@contextmanager
def disk_errors(path: Path, action: str = "written") -> Iterator[None]:
    """Turn the disk's errors into an `IntegrityError` with a next step."""
    try:
        yield
    except OSError as error:
        hint = _NEXT_STEPS.get(error.errno or 0, "check the disk, then run the same command again: it resumes")
        intact = "; what was finished before is intact" if action == "written" else ""
        message = f"{path.name} cannot be {action}{intact}"
        raise IntegrityError(message, where=str(path), why=error.strerror or str(error), hint=hint) from error


def sync_folder(folder: Path) -> None:
    """Make the names in a folder (new files, renames) survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    with disk_errors(folder, "created"):
        folder.mkdir(parents=True, exist_ok=True)


def require_writable(folder: Path) -> None:
    """Refuse a folder that can be neither written to nor made. Nothing is left behind."""
    with disk_errors(folder, "written to"):
        there = folder.absolute()
        while not there.exists():
            there = there.parent
        if not there.is_dir():
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        with tempfile.TemporaryFile(dir=there):  # only trying tells a read-only disk from a forbidden folder
            pass


def write_atomic(path: Path, content: bytes) -> None:
    """Write aside, sync, rename: a reader sees the old file or the new one, never a part."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")  # two processes may write the same file
    with disk_errors(path):
        try:
            with aside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            aside.replace(path)
        except OSError:
            aside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def pretty_json(value: Any) -> bytes:
    """JSON for files that people read, with one byte sequence for one value."""
    return (json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n").encode()
