"""Null texts from a file of your own: `texts:<path>`, JSON lines, plain or gzipped.

Every line has a `text`; `id`, `document` (or `doc`) and `domain` (or `source`) are optional. Texts of one document must
share it: calibration and held-out texts are split by document.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO

from wmbench.errors import ConfigError
from wmbench.types import NullText

TEXTS = "texts:"
_EXPECTED = 'each line is an object such as {"text": "...", "id": "...", "document": "..."}'


def file_nulls(argument: str, limit: int | None = None) -> Iterator[NullText]:
    path = Path(argument).expanduser()
    try:
        with _opened(path) as file:
            lines = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
            for number, line in islice(lines, limit):
                yield _null(line, number, path)
    except (OSError, EOFError) as error:  # EOFError: a gzip file that is cut off
        why, hint = getattr(error, "strerror", None) or str(error), "check the path of the texts"
        raise ConfigError("the null texts cannot be read", where=str(path), why=why, hint=hint) from error


def _opened(path: Path) -> IO[bytes] | gzip.GzipFile:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _null(line: bytes, number: int, path: Path) -> NullText:
    where = f"{path}:{number}"
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ConfigError("a line is not JSON", where=where, why=str(error), hint=_EXPECTED) from error
    if not isinstance(fields, dict) or not isinstance(fields.get("text"), str):
        raise ConfigError("a line has no text", where=where, hint=_EXPECTED)
    identity = str(fields.get("id", f"line-{number}"))
    document = str(fields.get("document", fields.get("doc", identity)))
    return NullText(identity, fields["text"], "file", document, str(fields.get("domain", fields.get("source", ""))))
