"""Prompts and null texts of the paper: WaterBench's three prompt sets, and passages of C4 RealNewsLike.

None of them is part of wmbench. They are looked for in `$WMBENCH_DATA` (default: ~/.cache/wmbench/data) as
`<name>.jsonl` or `<name>.jsonl.gz`; what is missing there is fetched from its public source.
"""

from __future__ import annotations

import importlib
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Final

from wmbench.bench.json_rows import json_rows
from wmbench.disk import make_folder, write_atomic
from wmbench.errors import ConfigError
from wmbench.types import NullText, Sample

_COMMIT: Final = "5fd5b2b40d007913d3241577d9310cf01c90529a"
_WATERBENCH: Final = f"https://raw.githubusercontent.com/THU-KEG/WaterBench/{_COMMIT}/data/WaterBench"
_FILES: Final = {
    "finance_qa": "2-2_finance_qa.jsonl",
    "alpacafarm": "5-1_alpacafarm.jsonl",
    "longform_qa": "2-1_longform_qa.jsonl",
}
_C4: Final = "allenai/c4"
_SPLIT: Final = "realnewslike"
_SECONDS: Final = 60


# --- prompts ---------------------------------------------------------------------------------------------------


def finance_qa(argument: str, limit: int | None) -> list[Sample]:
    return _prompts("finance_qa", limit)


def alpacafarm(argument: str, limit: int | None) -> list[Sample]:
    return _prompts("alpacafarm", limit)


def longform_qa(argument: str, limit: int | None) -> list[Sample]:
    return _prompts("longform_qa", limit)


def _prompts(name: str, limit: int | None) -> list[Sample]:
    """The first `limit` prompts. There are 200 of two of the sets: more samples are repeats under ids of their own."""
    path = find_data(name) or _fetched(name)
    every = [text for _, row in json_rows(path) if (text := _prompt(row))]
    if not every:
        raise ConfigError(
            "the prompt file holds no prompt", where=str(path), hint='each line needs "prompt" or "input"'
        )
    samples = []
    for number in range(len(every) if limit is None else limit):
        repeat, place = divmod(number, len(every))
        identity = f"{name}-{place:04d}" + (f"#{repeat + 1}" if repeat else "")
        samples.append(Sample(identity, every[place], name, number, {"repeat": repeat + 1}))
    return samples


def _prompt(row: Mapping[str, Any]) -> str:
    """`prompt`, or WaterBench's own `context` and `input`; white space collapsed."""
    parts = (row["prompt"],) if "prompt" in row else (row.get("context"), row.get("input"))
    return " ".join(" ".join(str(part).split()) for part in parts if part)


def _fetched(name: str) -> Path:
    source, target = f"{_WATERBENCH}/{_FILES[name]}", data_folder() / f"{name}.jsonl"
    try:
        with urllib.request.urlopen(source, timeout=_SECONDS) as response:  # https and a fixed address
            content = response.read()
    except (urllib.error.URLError, OSError) as error:
        raise ConfigError(
            f"the prompts {name!r} are not on this machine and cannot be fetched",
            where=source,
            why=str(error),
            hint=f"save that file as {target}, or point $WMBENCH_DATA at a folder that has it",
        ) from error
    make_folder(target.parent)
    write_atomic(target, content)
    return target


# --- null texts ------------------------------------------------------------------------------------------------


def c4_nulls(argument: str, limit: int | None) -> Iterator[NullText]:
    """One text per document, whole; the host cuts it at a random place to a length of the range it needs.

    `c4:<path>` reads a file (`text`, and `doc`, `url` or `id` to tell documents apart), `c4` a file
    `c4_realnewslike.jsonl[.gz]` among the data, else the hub's stream.
    """
    path = _c4_path(argument)
    rows = (row for _, row in json_rows(path)) if path is not None else _streamed()
    return islice(_one_per_document(rows), limit)


def c4_file(argument: str) -> Path | None:
    """What `c4_nulls` reads, when its first line is as it should be; None for the stream."""
    path = _c4_path(argument)
    if path is not None:
        next(json_rows(path, limit=1), None)
    return path


def _c4_path(argument: str) -> Path | None:
    return Path(argument).expanduser() if argument else find_data("c4_realnewslike")


def _one_per_document(rows: Iterator[Mapping[str, Any]]) -> Iterator[NullText]:
    seen: set[str] = set()
    for number, row in enumerate(rows):
        document = str(row.get("doc") or row.get("document") or row.get("url") or row.get("id") or number)
        text = str(row.get("text") or "").strip()
        if text and document not in seen:
            seen.add(document)
            yield NullText(f"c4/{document}", text, "human", document=document, domain=_SPLIT)


def _streamed() -> Iterator[Mapping[str, Any]]:
    hint = f"save passages as {data_folder() / 'c4_realnewslike.jsonl'}, or name a file: --nulls c4:<path>"
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        hint = f"pip install 'wmbench[datasets]'; or {hint}"
        raise ConfigError("C4 is not on this machine", why=str(error), hint=hint) from error
    try:
        yield from library.load_dataset(_C4, _SPLIT, split="train", streaming=True)
    except Exception as error:  # the library raises whatever the network or the hub makes it raise
        why = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
        raise ConfigError("C4 cannot be read from the hub", why=why, hint=hint) from error


# --- files -----------------------------------------------------------------------------------------------------


def data_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(os.environ.get("WMBENCH_DATA") or Path(cache) / "wmbench" / "data").expanduser()


def find_data(name: str) -> Path | None:
    candidates = (data_folder() / f"{name}{suffix}" for suffix in (".jsonl", ".jsonl.gz"))
    return next((path for path in candidates if path.is_file()), None)
