"""Append-only files of JSON lines: the truth of a run.

A line counts once its newline is on disk. A process killed while it writes leaves at most one torn last line, which
the next reader drops with a warning; damage anywhere else is an error, never skipped.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from wmbench.disk import disk_errors, sync_folder, write_atomic
from wmbench.errors import IntegrityError

Record = dict[str, Any]


class TornLineWarning(UserWarning):
    """The last line of a file was cut off by a crash and has been dropped; its item is computed again."""


class JsonlFile:
    """One file of records, each with an `id` of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, *, repair: bool = False) -> list[Record]:
        """All whole records. With `repair` (for the owner of the folder) a torn last line is also cut off the file."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise IntegrityError(
                f"{self.path.name} cannot be read", where=str(self.path), why=error.strerror
            ) from error
        lines = content.split(b"\n")
        torn = lines.pop()
        whole = len(content) - len(torn)
        records: list[Record] = []
        for number, line in enumerate(lines, start=1):
            try:
                records.append(_parse(line))
            except ValueError as error:
                # After a power failure a file system may fill the last write with zeros, its newline included.
                if number < len(lines) or torn:
                    raise self._damaged(number, error) from error
                torn, whole = line + b"\n", whole - len(line) - 1
        if torn:
            message = f"{self.path}: dropped a torn last line of {len(torn)} bytes; its item is computed again"
            warnings.warn(message, TornLineWarning, stacklevel=2)
            if repair:
                self._truncate(whole)
        return records

    def append(self, record: Mapping[str, Any]) -> None:
        """Add one line and wait until it is on disk. When that fails the file is left as it was."""
        line = encode_line(record)
        with disk_errors(self.path):
            is_new = not self.path.exists()
            # Unbuffered, so that a failed write leaves nothing behind that a later close would try to write again.
            with self.path.open("ab", buffering=0) as file:
                before = file.tell()
                try:
                    written = file.write(line)
                    while written < len(line):
                        written += file.write(line[written:])
                    os.fsync(file.fileno())
                except OSError:
                    file.truncate(before)
                    raise
            if is_new:
                sync_folder(self.path.parent)

    def rewrite(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Replace the whole file at once."""
        write_atomic(self.path, b"".join(encode_line(record) for record in records))

    def _truncate(self, size: int) -> None:
        with disk_errors(self.path, "repaired"), self.path.open("r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def _damaged(self, number: int, error: ValueError) -> IntegrityError:
        return IntegrityError(
            f"{self.path.name} is damaged in line {number}",
            where=f"{self.path}:{number}",
            why=str(error),
            hint="restore the file, or delete the run folder and run the same command again",
        )


def cut_torn_line(path: Path) -> None:
    """For files that nobody resumes from: drop what a killed process left behind the last newline."""
    if path.exists():
        with path.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


def _parse(line: bytes) -> Record:
    record = json.loads(line.decode("utf-8"))
    if not isinstance(record, dict):
        raise ValueError("a line holds one JSON object")
    return record


def encode_line(record: Mapping[str, Any]) -> bytes:
    """One line of JSON. Readable UTF-8, except that lone surrogates (models emit them) force ASCII escapes."""
    text = json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode("utf-8") + b"\n"
    except UnicodeEncodeError:
        return json.dumps(record, allow_nan=False, separators=(",", ":")).encode("ascii") + b"\n"
