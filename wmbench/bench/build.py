"""Builds what a plan names, by calling the plugins' factories; models are loaded once per process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmbench.bench.plan import Resolved, RunPlan
from wmbench.config import RunConfig, key_source
from wmbench.errors import ConfigError, KeyFileError, PluginError, WmbenchError
from wmbench.host import Entry, Host, load_attribute
from wmbench.keys import DEFAULT_VARIABLE, KeySource, SecretKey
from wmbench.types import BackboneEntry, Encoder, Sample, SchemeContext, TextCodec

if TYPE_CHECKING:
    from wmbench.runtime.backbone import Backbone


class Builder:
    """Factories of one host, with the models they have loaded."""

    def __init__(self, host: Host, note: Callable[[str], None] = lambda _: None) -> None:
        self.host = host
        self.note = note
        self._backbones: dict[str, Backbone] = {}
        self._encoders: dict[str, Encoder] = {}

    def backbone(self, chosen: Resolved[BackboneEntry]) -> Backbone:
        identity = json.dumps([chosen.info.name, chosen.dump()], sort_keys=True)
        if identity not in self._backbones:
            self._backbones[identity] = _made(chosen.entry, chosen.settings)
        return self._backbones[identity]

    def backbone_by_name(self, name: str) -> Backbone:
        """With its default settings; handed to attacks."""
        entry, _ = self.host.backbones.resolve(name)
        settings = load_attribute(entry.info.config, entry.plugin)() if entry.info.config else None
        return self.backbone(Resolved(entry, settings, name))

    def encoder(self, name: str) -> Encoder:
        if name not in self._encoders:
            entry, argument = self.host.encoders.resolve(name)
            self._encoders[name] = _made(entry, argument)
        return self._encoders[name]

    def prompts(self, plan: RunPlan) -> list[Sample]:
        limit = plan.config.samples
        samples = list(_made(plan.dataset.entry, plan.dataset.argument, limit))
        if not all(isinstance(sample, Sample) for sample in samples):
            raise PluginError(f"dataset {plan.dataset.info.name!r} returned something that is not a Sample")
        if not samples:
            raise ConfigError(f"dataset {plan.dataset.label!r} has no prompts")
        if len({sample.id for sample in samples}) < len(samples):
            raise ConfigError(f"dataset {plan.dataset.label!r} has two prompts with the same id")
        return samples[:limit]

    def scheme(self, plan: RunPlan, codec: TextCodec, key: SecretKey | None) -> object:
        context = SchemeContext(codec, key, self.encoder, plan.decoding.block_length, plan.decoding.max_new_tokens)
        return _made(plan.scheme.entry, plan.scheme.settings, context)

    def attack(self, chosen: Resolved[Any]) -> object:
        return _made(chosen.entry, chosen.settings)

    def key(self, plan: RunPlan) -> SecretKey | None:
        """The user's key when the scheme depends on it."""
        return load_key(plan.config, self.note) if plan.scheme.info.key_use == "secret" else None


def default_key_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "wmbench" / "key"


def load_key(config: RunConfig, note: Callable[[str], None] = lambda _: None) -> SecretKey:
    """The named key; else $WMBENCH_KEY; else the user's key file, made on first use so that a first run just works."""
    if config.key is not None:
        return key_source(config.key).load()
    if DEFAULT_VARIABLE in os.environ:
        return KeySource("env", DEFAULT_VARIABLE).load()
    path = default_key_file()
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise KeyFileError(
                "the key cannot be saved", where=str(path), why=error.strerror, hint="set $WMBENCH_KEY"
            ) from error
        SecretKey.generate().write(path)
        note(f"made a secret key for you: {path}")
    return KeySource("file", str(path)).load()


def _made(entry: Entry[Any], *arguments: object) -> Any:
    """Call a factory: foreign code, so its errors name the plugin."""
    factory = load_attribute(entry.info.factory, entry.plugin)
    try:
        return factory(*arguments)
    except (WmbenchError, MemoryError):
        raise
    except Exception as error:
        raise PluginError(
            f"plugin {entry.plugin} failed to build {entry.info.name!r}",
            where=entry.info.factory,
            why=f"{type(error).__name__}: {error}",
            hint="report it to the plugin's author; --debug shows the traceback",
        ) from error
