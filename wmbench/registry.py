"""What plugins registered, by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final, Generic, TypeVar, get_args

from wmbench.errors import ConfigError, PluginError, UnknownNameError
from wmbench.types import AttackInfo, KeyUse, Registered, SchemeInfo

INLINE = "inline"
"""In place of the version of a plugin that is one file."""
ALL, LOCAL, FEW = "all", "local", "few"
"""In place of a name: everything registered; every attack that costs nothing; four of those, for a first look."""
Info = TypeVar("Info", bound=Registered)
_NAME: Final = re.compile(r"\w[\w.+-]*:?")
_SETS_OF_SETTINGS: Final = ("decoding_only", "detection_only", "feature_settings", "approximate")


def folded(name: str) -> str:
    """Equal for names that a reader takes for the same."""
    return name.replace("-", "_")


def flaw(info: Registered) -> str | None:
    """What is wrong with a registration. What it names is not loaded, so a wrong path shows later."""
    if not isinstance(info.name, str) or not _NAME.fullmatch(info.name):
        return f"{info.name!r} cannot be a name: letters, digits, and . + - _ between them"
    if info.name in (ALL, LOCAL, FEW) and isinstance(info, SchemeInfo | AttackInfo):
        return f"{info.name!r} cannot be a name: it stands for several"
    texts: dict[str, object] = {
        "summary": info.summary,
        "factory": info.factory,
        "config": "" if info.config is None else info.config,
        "source": getattr(info, "source", None) or "",
        "detector": getattr(info, "detector", None) or "",
    }
    for name, value in texts.items():
        if not isinstance(value, str):
            wanted = "one line of text" if name == "summary" else "an import path 'package.module:attribute'"
            return f"{info.name}: {name} is {value!r}, expected {wanted}"
    if isinstance(info, SchemeInfo):
        if info.key_use not in get_args(KeyUse):
            return f"{info.name}: key_use is {info.key_use!r}, expected one of {', '.join(get_args(KeyUse))}"
        for name in _SETS_OF_SETTINGS:
            value = getattr(info, name)
            if value is not None and not isinstance(value, AbstractSet):  # of a string, every letter would be a name
                return f"{info.name}: {name} is {value!r}, expected a frozenset of names of settings"
    return None


@dataclass(frozen=True, slots=True)
class PluginRecord:
    """One plugin, loaded or failed."""

    name: str
    distribution: str
    version: str
    hooks: tuple[str, ...] = ()
    error: str | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})"

    @property
    def remedy(self) -> str:
        """The next step when its code fails. Who gives a file with --plugin is its author."""
        who = "correct the file" if self.version == INLINE else "report it to the plugin's author"
        return f"{who}; --debug shows the traceback"


@dataclass(frozen=True, slots=True)
class Entry(Generic[Info]):
    """Something registered, and by whom."""

    info: Info
    plugin: PluginRecord


class Registry(Mapping[str, Entry[Info]]):
    """Registered things of one kind, by name. A name ending in ':' takes an argument: `jsonl:prompts.jsonl`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry[Info]] = {}

    def __getitem__(self, name: str) -> Entry[Info]:
        return self._entries[name] if name in self._entries else self.resolve(name)[0]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries  # Mapping's own would raise UnknownNameError

    def spelled(self, name: str) -> str:
        """The name as it was registered, for one that only mixes up hyphens and underscores; any other as it is."""
        head, colon, argument = name.partition(":")
        known = [registered.rstrip(":") for registered in self._entries]
        found = [head] if head in known else [one for one in known if folded(one) == folded(head)]
        return f"{found[0]}{colon}{argument}" if found else name

    def resolve(self, name: str) -> tuple[Entry[Info], str]:
        """The entry of a name, and the argument behind its colon (empty without one)."""
        name = self.spelled(name)
        if name in self._entries and not name.endswith(":"):
            return self._entries[name], ""
        head, colon, argument = name.partition(":")
        if colon and head + ":" in self._entries:
            if not argument:
                raise ConfigError(f"{self.kind} {name!r} needs an argument after the colon", hint=f"{head}:<argument>")
            return self._entries[head + ":"], argument
        hint = "run `wmbench ls` to see what is installed; what a file of your own registers needs --plugin FILE.py"
        raise UnknownNameError(self.kind, name, self._entries, hint=hint)

    def add(self, info: Info, plugin: PluginRecord) -> None:
        if (taken := self._entries.get(info.name)) is not None:
            raise PluginError(f"{self.kind} {info.name!r} is registered by both {taken.plugin} and {plugin}")
        self._entries[info.name] = Entry(info, plugin)
