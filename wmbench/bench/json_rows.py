"""Data that users bring: files of JSON objects, one per line, plain or gzipped."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any

from wmbench.errors import ConfigError


def json_rows(
    path: Path, expected: str | None = None, limit: int | None = None, *, is_kept: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every object with the number of its line. `expected` says in errors what a line should be; `is_kept`, that whole
    objects go into the files of a run, which have no NaN and no Infinity: Python would read them."""
    try:
        with _opened(path) as file:
            lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
            for number, line in islice(lines, limit):
                yield number, _row(line, f"{path}:{number}", expected, _refused if is_kept else None)
    except (OSError, EOFError, zlib.error) as error:  # the last two: a gzip file that is cut off or damaged
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError("the data cannot be read", where=str(path), why=why, hint="check the path") from error


def _opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _row(line: bytes, where: str, expected: str | None, constant: Callable[[str], Any] | None) -> dict[str, Any]:
    try:
        row = json.loads(line, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise ConfigError("a line is not JSON", where=where, why=str(error), hint=expected) from error
    if not isinstance(row, dict):
        raise ConfigError("a line is not one JSON object", where=where, hint=expected)
    return row


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON; leave the field out, or write null")
