"""Prompts from a Hugging Face dataset: `hf:<owner/name>[:<split>[:<column>]]`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from wmbench.errors import ConfigError
from wmbench.types import Sample

COLUMNS = ("prompt", "instruction", "question", "query", "input", "text")
"""Where a prompt is looked for when no column is named; the first that exists."""


def hub_prompts(argument: str, limit: int | None) -> Sequence[Sample]:
    """The first `limit` non-empty prompts. Streams, so that a large dataset is not downloaded for a few rows."""
    name, split, column, *rest = (*argument.split(":"), "", "")
    if not name or any(rest):
        raise ConfigError(f"hf:{argument} cannot be read", hint="write hf:<owner/name>[:<split>[:<column>]]")
    split = split or "train"
    samples: list[Sample] = []
    try:
        rows = enumerate(_library().load_dataset(name, split=split, streaming=True))
        for number, row in rows:
            text = _text(row, _column(row, column, argument), argument)
            if text:
                samples.append(Sample(f"hf:{name}:{split}:{number}", text, f"hf:{name}", len(samples)))
            if limit is not None and len(samples) >= limit:
                break
    except ConfigError:
        raise
    except Exception as error:  # the library raises whatever the network, the hub or a file format makes it raise
        raise ConfigError(
            f"the Hugging Face dataset {name!r} (split {split!r}) cannot be loaded",
            why=f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}",
            hint="check the name and the network, or put the prompts into a file and use jsonl:<path>",
        ) from error
    if not samples:
        raise ConfigError(f"the Hugging Face dataset {name!r} (split {split!r}) holds no prompt")
    return samples


def _library() -> Any:
    try:
        return importlib.import_module("datasets")
    except ImportError as error:
        raise ConfigError(
            "hf: prompts need the library `datasets`",
            why=str(error),
            hint="pip install 'wmbench[datasets]', or put the prompts into a file and use jsonl:<path>",
        ) from error


def _column(row: Mapping[str, Any], wanted: str, argument: str) -> str:
    for name in (wanted,) if wanted else COLUMNS:
        if name in row:
            return name
    raise ConfigError(
        f"hf:{argument} has no column {wanted!r}"
        if wanted
        else f"hf:{argument} has no column that looks like a prompt",
        why=f"its columns: {', '.join(row)}",
        hint="name one: hf:<owner/name>:<split>:<column>",
    )


def _text(row: Mapping[str, Any], column: str, argument: str) -> str:
    value = row[column]
    if value is not None and not isinstance(value, str):
        raise ConfigError(
            f"hf:{argument}: column {column!r} holds no text",
            why=f"it holds a {type(value).__name__}, as chats do",
            hint="name another column, or write the prompts into a file and use jsonl:<path>",
        )
    return (value or "").strip()
