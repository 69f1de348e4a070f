"""Texts to be judged, from files, folders and standard input. Whatever the bytes, reading them does not fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wmbench.errors import ConfigError

_SUFFIXES: Final = (".txt", ".md", ".jsonl")
STANDARD_INPUT: Final = "-"
_LONGEST_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class InputText:
    name: str
    """The file; behind it the line or the record's id when the file holds several texts."""
    text: str


def read_inputs(sources: Iterable[str]) -> Iterator[InputText]:
    """A .jsonl file holds one text per line (a record with `text`, or a string), any other file is one text."""
    for source in sources:
        if source == STANDARD_INPUT:
            yield InputText("standard input", _decoded(sys.stdin.buffer.read()))
            continue
        path = Path(source)
        if _is_folder(path):
            files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
            if not files:
                raise ConfigError("the folder holds no text", where=source, why=f"looked for {', '.join(_SUFFIXES)}")
        else:
            files = [path]
        for file in files:
            yield from _read_file(file)


def _is_folder(path: Path) -> bool:
    """A name that the system refuses, for its length or a NUL, is none; reading it says why."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def _read_file(path: Path) -> Iterator[InputText]:
    try:
        content = _decoded(path.read_bytes())
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            "the text cannot be read", where=_shown(path), why=why, hint="check the file's name"
        ) from error
    if path.suffix != ".jsonl":
        yield InputText(str(path), content)
        return
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            yield from _record(path, number, line)


def _shown(path: Path) -> str:
    name = str(path)
    return name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}... ({len(name)} characters)"


def _record(path: Path, number: int, line: str) -> Iterator[InputText]:
    expected = 'each line is a string, or an object such as {"text": "...", "id": "..."}'
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        where = f"{path}:{number}"
        raise ConfigError("a line is not JSON", where=where, why=str(error), hint=expected) from error
    identity, text = (value.get("id", number), value.get("text")) if isinstance(value, dict) else (number, value)
    if isinstance(value, dict) and "text" in value and text is None:
        return  # an attack that failed has left no text
    if not isinstance(text, str):
        raise ConfigError("a line has no text", where=f"{path}:{number}", hint=expected)
    yield InputText(f"{path}:{identity}", text)


def _decoded(content: bytes) -> str:
    return content.decode("utf-8-sig", "replace")
