"""The command that makes a run again, from the arguments that run.json keeps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any, Final

_REPEATED: Final = {"schemes": "--scheme", "datasets": "--dataset", "nulls": "--nulls"}
_SETTINGS: Final = {"decoding": "-D", "filters": "-F"}


def command_line(passed: Mapping[str, Any]) -> str:
    """As one would type it. The key's source is a matter of one's own machine and is left out."""
    return shlex.join(["wmbench", "run", *_words(passed)])


def _words(passed: Mapping[str, Any]) -> Iterator[str]:
    schemes = passed.get("schemes", [])
    for name, option in _REPEATED.items():
        for item in passed.get(name, []):
            yield from (option, item["name"] if isinstance(item, Mapping) else item)
    if backbone := passed.get("backbone"):
        yield from ("--backbone", backbone["name"])
        yield from _settings("-B", backbone["params"])
    for scheme in schemes:
        prefix = f"{scheme['name']}." if len(schemes) > 1 else ""
        yield from _settings("-S", scheme["params"], prefix)
    if "attacks" in passed and not passed["attacks"]:
        yield "--no-attacks"
    for attack in passed.get("attacks", []):
        yield from ("--attack", attack["name"])
        yield from _settings("-A", attack["params"], f"{attack['name'].partition(':')[0]}.")
    for name, option in _SETTINGS.items():
        yield from _settings(option, passed.get(name, {}))
    for name, value in passed.items():
        if name not in {*_REPEATED, *_SETTINGS, "backbone", "attacks", "key"} and value is not None:
            yield from (f"--{name.replace('_', '-')}", str(value))


def _settings(option: str, settings: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in settings.items():
        yield from (option, f"{prefix}{name}={value if isinstance(value, str) else json.dumps(value)}")
