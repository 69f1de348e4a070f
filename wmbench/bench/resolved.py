"""A registered thing with its checked settings."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from wmbench.errors import ConfigError
from wmbench.host import Entry, load_attribute
from wmbench.settings import Settings, validated
from wmbench.types import Registered

Info = TypeVar("Info", bound=Registered)


@dataclass(frozen=True)
class Resolved(Generic[Info]):
    """A registered thing with its checked settings."""

    entry: Entry[Info]
    settings: BaseModel | None
    """None when it has none."""
    label: str
    """Names it in folders and files."""
    argument: str = ""

    @property
    def info(self) -> Info:
        return self.entry.info

    def dump(self) -> Settings:
        return self.settings.model_dump(mode="json") if self.settings else {}

    def describe(self) -> Settings:
        """For run.json and plans."""
        plugin = self.entry.plugin
        return {"name": self.info.name, "settings": self.dump(), "plugin": str(plugin)}


def settings_of(entry: Entry[Any], kind: str, params: Mapping[str, Any]) -> BaseModel | None:
    """Checked settings, defaults included."""
    info = entry.info
    if info.config is None:
        if params:
            raise ConfigError(f"{kind} {info.name!r} has no settings", why=f"got {', '.join(sorted(params))}")
        return None
    model: type[BaseModel] = load_attribute(info.config, entry.plugin)
    return validated(model, params, f"{kind} {info.name!r}")


def known_settings(entry: Entry[Any], settings: Mapping[str, Any]) -> Settings:
    """Those that this thing has, of settings that are meant for every one that has them."""
    if not settings or entry.info.config is None:
        return {}
    known = load_attribute(entry.info.config, entry.plugin).model_fields
    return {name: value for name, value in settings.items() if name in known}


def spec_hash(identity: Mapping[str, Any]) -> str:
    try:
        canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except ValueError as error:
        raise ConfigError("a setting is not a finite number", why=str(error)) from error
    return hashlib.sha256(canonical.encode()).hexdigest()[:10]


def slug(name: str) -> str:
    """A name that is safe in a file name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-.") or "unnamed"
