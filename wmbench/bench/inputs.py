"""Texts to be judged or attacked: files, folders, standard input. Odd characters are read as they are; what is no text
at all, such as an archive or a picture, is refused by name."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wmbench.detection import is_calibration
from wmbench.errors import ConfigError

_SUFFIXES: Final = (".txt", ".md", ".jsonl")
STANDARD_INPUT: Final = "-"
_LONGEST_SHOWN: Final = 300
_NOT_TEXT: Final = ("\0", "\ufffd")
"""Zero bytes, and what stands for bytes that are no UTF-8."""
_MOST_NOT_TEXT: Final = 0.2
_FEWEST_BYTES: Final = 500
"""Of fewer, nobody can say what they are: they are judged, with a warning."""
_ZIP: Final = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class InputText:
    name: str
    """The file; behind it the line or the record's id when the file holds several texts."""
    text: str
    id: str = ""
    """That of its record, if it has one."""
    prompt: str = ""
    """The prompt it answers, if its record says so."""
    source: str = ""
    """What it was read from, if that holds several texts."""
    attack: str = ""
    """What it went through, if its record says so, as those of `wmbench attack --out` do."""

    @property
    def title(self) -> str:
        """The name for a reader: results of several attacks on a text share its id."""
        return f"{self.name}, {self.attack}" if self.attack else self.name


def read_inputs(sources: Iterable[str], *, lines_on_stdin: bool = False) -> Iterator[InputText]:
    """A .jsonl file holds one text per line (a record with `text`, or a string), any other file is one text."""
    for source in sources:
        if source == STANDARD_INPUT:
            if sys.stdin is None:
                raise ConfigError("standard input is closed", hint="name a file, or pipe a text into the command")
            content = _decoded(sys.stdin.buffer.read(), "standard input")
            yield from _records("standard input", content) if lines_on_stdin else [InputText("standard input", content)]
            continue
        path = Path(source)
        if _is_folder(path):
            files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
            if not files:
                raise ConfigError(
                    "the folder holds no text",
                    where=source,
                    why=f"looked for {', '.join(_SUFFIXES)}",
                    hint="name the file itself: then its ending does not matter",
                )
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
        content = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            "the text cannot be read", where=_shown(path), why=why, hint="check the file's name"
        ) from error
    if content.startswith(_ZIP) and is_calibration(path):
        raise ConfigError(
            "a calibration was given as a text",
            where=_shown(path),
            why="a pattern such as runs/denmark_*/calibration.npz names those of several runs",
            hint="name one calibration: --calibration <run folder>/calibration.npz",
        )
    text = _decoded(content, _shown(path))
    if path.suffix != ".jsonl":
        yield InputText(str(path), text)
        return
    yield from _records(str(path), text)


def _records(source: str, content: str) -> Iterator[InputText]:
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            yield from _record(source, number, line)


def _shown(path: Path) -> str:
    name = str(path)
    return name if len(name) <= _LONGEST_SHOWN else f"{name[:_LONGEST_SHOWN]}... ({len(name)} characters)"


def _record(source: str, number: int, line: str) -> Iterator[InputText]:
    expected = 'each line is a string, or an object such as {"text": "...", "id": "..."}'
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        where = f"{source}:{number}"
        raise ConfigError("a line is not JSON", where=where, why=str(error), hint=expected) from error
    record = value if isinstance(value, dict) else {"text": value}
    identity, text = record.get("id"), record.get("text")
    if isinstance(value, dict) and "text" in value and text is None:
        return  # an attack that failed has left no text
    if not isinstance(text, str):
        raise ConfigError("a line has no text", where=f"{source}:{number}", hint=expected)
    name = f"{source}:{number if identity is None else identity}"
    own = "" if identity is None else str(identity)
    prompt, attack = (found if isinstance(found := record.get(key), str) else "" for key in ("prompt", "attack"))
    yield InputText(name, text, own, prompt, source, attack)


def _decoded(content: bytes, where: str) -> str:
    text = content.decode("utf-8-sig", "replace")
    share, is_archive = share_of_no_text(text), content.startswith(_ZIP)
    if len(content) >= _FEWEST_BYTES and (is_archive or share > _MOST_NOT_TEXT):
        raise ConfigError(
            "this is not a text",
            where=where,
            why="it is an archive" if is_archive else f"{share:.0%} of it are zeros, or no UTF-8",
            hint="give the words of the document, saved as plain text in UTF-8",
        )
    return text


def share_of_no_text(text: str) -> float:
    """Of its characters."""
    return sum(map(text.count, _NOT_TEXT)) / max(1, len(text))
