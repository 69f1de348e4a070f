"""The command that makes a run again, from the arguments that run.json keeps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

_REPEATED: Final = {
    "schemes": "--scheme",
    "backbones": "--backbone",
    "datasets": "--dataset",
    "attacks": "--attack",
    "nulls": "--nulls",
    "lengths": "--length",
}
_SETTINGS: Final = {"decoding": "-D", "filters": "-F"}


def command_line(arguments: Mapping[str, Mapping[str, Any]]) -> str:
    """As one would type it. The key's source is a matter of one's own machine and is left out."""
    passed, defaulted = arguments.get("passed", {}), arguments.get("defaulted", {})
    return shlex.join(["wmbench", "run", *_preset(defaulted), *_words(passed)])


def _preset(defaulted: Mapping[str, Any]) -> list[str]:
    """run.json says what a preset filled in, not its name: the first preset that fills in the same is as good."""
    from wmbench.config import DEFAULT_PRESET, PRESETS, load_config

    for name in sorted(PRESETS, key=lambda name: name != DEFAULT_PRESET):
        config = load_config(name).model_dump(mode="json")
        if all(config.get(field) == value for field, value in defaulted.items()):
            return [] if name == DEFAULT_PRESET else ["--preset", name]
    return []


def _words(passed: Mapping[str, Any]) -> Iterator[str]:
    for name, option in _REPEATED.items():
        for item in passed.get(name, []):
            yield from (option, item["name"] if isinstance(item, Mapping) else str(item))
    for scheme in passed.get("schemes", []):
        prefix = f"{scheme['name']}." if len(passed["schemes"]) > 1 else ""
        yield from _settings("-S", scheme["params"], prefix)
    for backbone in passed.get("backbones", []):
        yield from _settings("-B", backbone["params"])
    for attack in passed.get("attacks", []):
        yield from _settings("-A", attack["params"], f"{attack['name'].partition(':')[0]}.")
    if "attacks" in passed and not passed["attacks"]:
        yield "--no-attacks"
    for name, option in _SETTINGS.items():
        yield from _settings(option, passed.get(name, {}))
    for name, value in passed.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
        elif name not in {*_REPEATED, *_SETTINGS, "key"} and value is not None:
            yield from (f"--{option}", str(value))


def _settings(option: str, settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in settings.items():
        yield from (option, f"{prefix}{name}={value if isinstance(value, str) else json.dumps(value)}")
