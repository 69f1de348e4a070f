"""The command that makes a run again, from the arguments that run.json keeps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from wmbench.config import CHAIN, load_config
from wmbench.errors import ConfigError
from wmbench.presets import DEFAULT_PRESET, PRESETS
from wmbench.registry import INLINE
from wmbench.settings import parse_override

_REPEATED: Final = {
    "schemes": "--scheme",
    "backbones": "--backbone",
    "datasets": "--dataset",
    "attacks": "--attack",
    "nulls": "--nulls",
    "lengths": "--length",
}
_SETTINGS: Final = {"decoding": "-D", "filters": "-F"}
_SWITCHED_OFF: Final = frozenset({"normalise"})
"""Flags that the command line can also switch off; the others are off unless they are given."""


def commands(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The command of each run.json. Runs that were asked for together name the plugin files that any of them needs."""
    asked = [json.dumps(run.get("arguments", {}), sort_keys=True) for run in runs]
    files: dict[str, dict[str, None]] = {one: {} for one in asked}
    for one, run in zip(asked, runs, strict=True):
        files[one].update(dict.fromkeys(_plugin_files(run.get("versions", {}))))
    return [command_line(run.get("arguments", {}), files[one]) for one, run in zip(asked, runs, strict=True)]


def command_line(
    arguments: Mapping[str, Mapping[str, Any]], plugin_files: Iterable[str] = (), command: Sequence[str] = ("run",)
) -> str:
    """As one would type it. The key's source is a matter of one's own machine and is left out."""
    passed, defaulted = arguments.get("passed", {}), arguments.get("defaulted", {})
    plugins = [word for file in plugin_files for word in ("--plugin", file)]
    return shlex.join(["wmbench", *command, *_preset(defaulted), *_words(passed), *plugins])


def _plugin_files(versions: Mapping[str, str]) -> Iterator[str]:
    """Those of plugins that are one file stand in place of a distribution."""
    for name, version in versions.items():
        file, _, kind = version.rpartition(" ")
        if name.startswith("plugin ") and kind == INLINE:
            yield file


def _preset(defaulted: Mapping[str, Any]) -> list[str]:
    """run.json says what a preset filled in, not its name: the first preset that fills in the same is as good."""
    for name in sorted(PRESETS, key=lambda name: name != DEFAULT_PRESET):
        config = load_config(name).model_dump(mode="json")
        if all(config.get(field) == value for field, value in defaulted.items()):
            return [] if name == DEFAULT_PRESET else ["--preset", name]
    return []


def _words(passed: Mapping[str, Any]) -> Iterator[str]:
    for name, option in _REPEATED.items():
        for item in passed.get(name, []):
            yield from (option, item["name"] if isinstance(item, Mapping) else str(item))
    for name, option in (("schemes", "-S"), ("backbones", "-B")):
        chosen = passed.get(name, [])
        for choice in chosen:
            yield from _settings(option, choice["params"], _owner(choice) if len(chosen) > 1 else "")
    for attack in passed.get("attacks", []):
        yield from _settings("-A", attack["params"], _owner(attack))
    if "attacks" in passed and not passed["attacks"]:
        yield "--no-attacks"
    for name, option in _SETTINGS.items():
        yield from _settings(option, passed.get(name, {}))
    for name, value in passed.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            if value or name in _SWITCHED_OFF:
                yield f"--{option}" if value else f"--no-{option}"
        elif name not in {*_REPEATED, *_SETTINGS, "key"} and value is not None:
            yield from (f"--{option}", str(value))


def _settings(option: str, settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in settings.items():
        yield from (option, f"{prefix}{name}={_written(value)}")


def _owner(choice: Mapping[str, Any]) -> str:
    """Whose setting it is. In a chain of attacks every setting has its owner's name already."""
    return "" if CHAIN in choice["name"] else f"{choice['name'].partition(':')[0]}."


def _written(value: Any) -> str:
    """As it is where that is read as the same value; in quotes where `1.5` or `yes` is meant as a text."""
    if isinstance(value, str):
        with suppress(ConfigError):
            if parse_override(f"text={value}", "")[1] == value:
                return value
    return json.dumps(value, ensure_ascii=False)
