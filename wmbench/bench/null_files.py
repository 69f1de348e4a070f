"""Null texts from a file of your own: `texts:<path>`, JSON lines, plain or gzipped.

Every line has a `text`; `id`, `document` (or `doc`) and `domain` (or `source`) are optional. Texts of one document must
share it: calibration and held-out texts are split by document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from wmbench.bench.json_rows import json_rows
from wmbench.errors import ConfigError
from wmbench.types import NullText

_EXPECTED = 'each line is an object such as {"text": "...", "id": "...", "document": "..."}'


def null_file(argument: str) -> Path:
    """The file, when its first line is as it should be."""
    next(file_nulls(argument, 1), None)
    return Path(argument).expanduser()


def file_nulls(argument: str, limit: int | None = None) -> Iterator[NullText]:
    path = Path(argument).expanduser()
    for number, row in json_rows(path, _EXPECTED, limit):
        if not isinstance(row.get("text"), str):
            raise ConfigError("a line has no text", where=f"{path}:{number}", hint=_EXPECTED)
        identity = _first(row, "id") or f"line-{number}"
        document = _first(row, "document", "doc") or identity
        yield NullText(identity, row["text"], "file", document, _first(row, "domain", "source"))


def _first(row: Mapping[str, Any], *names: str) -> str:
    """Of several fields the first that is there."""
    return next((str(row[name]) for name in names if row.get(name) is not None), "")
