"""A checkpoint on disk: finds it, reads its small files, and says in plain words what is wrong with it.

Imports neither torch nor transformers: detection needs no more than the tokenizer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from wmbench.errors import ConfigError

SMALL_FILES = ("*.json", "*.jinja", "merges.txt", "vocab.txt", "*.model")
WEIGHTS = "*.safetensors"
"""What is downloaded: data, never code; weights only where a model is to be loaded."""
DOWNLOAD_AGAIN = "download the file again; `wmbench models check` tells when the directory is complete"
NAMED_TOKENS = ("bos", "eos", "pad", "unk", "cls", "sep", "mask")
"""Tokens that a tokenizer's configuration names: bos_token, ..."""


@dataclass(frozen=True)
class Checkpoint:
    """A directory with a config.json."""

    directory: Path
    config: Mapping[str, Any]

    @classmethod
    def open(cls, path: str, revision: str | None = None, *, with_weights: bool = False) -> Checkpoint:
        """A local directory, or a hub id that is downloaded or already in the local cache."""
        directory = _located(path, revision, (*SMALL_FILES, WEIGHTS) if with_weights else SMALL_FILES)
        if not (directory / "config.json").is_file():
            raise ConfigError(
                f"{str(directory)!r} holds no model",
                why="config.json is missing",
                hint="name the directory that holds config.json, the tokenizer and the safetensors files",
            )
        config = read_json(directory / "config.json")
        if not isinstance(config.get("model_type"), str):
            raise ConfigError(f"{directory / 'config.json'} names no model_type", hint="is this a model directory?")
        return cls(directory, config)

    @property
    def model_type(self) -> str:
        return str(self.config["model_type"])

    @cached_property
    def tokenizer_config(self) -> Mapping[str, Any]:
        path = self.directory / "tokenizer_config.json"
        return read_json(path) if path.is_file() else {}

    @cached_property
    def named_tokens(self) -> Mapping[str, Any]:
        """Which token is bos_token, mask_token, ...: by tokenizer_config.json, else by the file of older versions."""
        path = self.directory / "special_tokens_map.json"
        stated = {name: value for name, value in self.tokenizer_config.items() if value is not None}
        return {**(read_json(path) if path.is_file() else {}), **stated}

    @cached_property
    def logits(self) -> int:
        """How many ids the model knows, by config.json; 0 where it does not say."""
        found = self.config.get("embedding_size") or self.config.get("vocab_size")
        return found if isinstance(found, int) else 0

    @cached_property
    def chat_template(self) -> str | None:
        """The template that was shipped: a file of its own, or a field of tokenizer_config.json."""
        path = self.directory / "chat_template.jinja"
        if path.is_file():
            return read_text(path)
        found = self.tokenizer_config.get("chat_template")
        return found if isinstance(found, str) else None


def unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        "a file of the checkpoint cannot be read",
        where=str(path),
        why=error.strerror,
        hint="check the permissions of the file and the disk it lies on",
    )


def read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise ConfigError(
            "a file of the checkpoint is not text", where=str(path), why=str(error), hint=DOWNLOAD_AGAIN
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    text = read_text(path)
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ConfigError(
            "a file of the checkpoint is not JSON", where=str(path), why=str(error), hint=DOWNLOAD_AGAIN
        ) from error
    if not isinstance(content, dict):
        raise ConfigError("a file of the checkpoint is not a JSON object", where=str(path), hint=DOWNLOAD_AGAIN)
    return content


def looks_like_a_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or Path(name).is_dir()


def _located(path: str, revision: str | None, files: Sequence[str]) -> Path:
    local = Path(path).expanduser()
    if local.is_dir():
        return local
    if local.exists():
        raise ConfigError(f"{path!r} is a file", hint="name the directory that holds it")
    if looks_like_a_path(path) or path.count("/") != 1:
        raise ConfigError(
            f"model directory {path!r} does not exist",
            hint="give a directory with config.json and safetensors, or a hub id of the form owner/name",
        )
    return _downloaded(path, revision, files)


def _downloaded(hub_id: str, revision: str | None, files: Sequence[str]) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise ConfigError("models of the hub need an extra", hint="pip install 'wmbench[hf]'") from error
    try:
        return Path(snapshot_download(hub_id, revision=revision, allow_patterns=list(files)))
    except Exception as error:  # the hub library raises its own, httpx's and the operating system's errors
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else "no reason given"
        raise ConfigError(
            f"{hub_id!r} is neither a local directory nor available from the model hub",
            why=f"{type(error).__name__}: {first_line}",
            hint="check the name, the network and whether the model is gated; or download it elsewhere and "
            "say where it is with -B path=<directory>",
        ) from error
