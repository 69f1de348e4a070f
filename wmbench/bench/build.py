"""Builds what a plan names, by calling the plugins' factories; models are loaded once per process."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wmbench.bench.draws import prompt_id
from wmbench.bench.factories import foreign_code, made
from wmbench.bench.plan import RunPlan, resolve_backbone
from wmbench.bench.resolved import Resolved
from wmbench.config import Choice, RunConfig, key_source
from wmbench.errors import ConfigError, KeyFileError, PluginError
from wmbench.host import Host, load_attribute
from wmbench.keys import DEFAULT_VARIABLE, KeySource, SecretKey
from wmbench.types import BackboneEntry, DatasetInfo, Encoder, NullText, Sample, SchemeContext, TextCodec

if TYPE_CHECKING:
    from wmbench.runtime.backbone import Backbone

_MANY_PROMPTS: Final = 10_000
"""From here on reading them takes seconds."""


class Builder:
    """Factories of one host, with the models they have loaded."""

    def __init__(
        self, host: Host, note: Callable[[str], None] = lambda _: None, *, writes_nothing: bool = False
    ) -> None:
        self.host = host
        self.note = note
        self.writes_nothing = writes_nothing
        self._backbones: dict[str, Backbone] = {}
        self._encoders: dict[str, Encoder] = {}
        self._said: set[str] = set()

    def backbone(self, chosen: Resolved[BackboneEntry]) -> Backbone:
        identity = json.dumps([chosen.info.name, chosen.dump()], sort_keys=True)
        if identity not in self._backbones:
            self._backbones[identity] = made(chosen.entry, chosen.settings)
        return self._backbones[identity]

    def backbone_by_name(self, name: str) -> Backbone:
        """With its default settings; handed to attacks."""
        return self.backbone(resolve_backbone(Choice(name=name), self.host))

    def codec(self, chosen: Resolved[BackboneEntry]) -> TextCodec:
        """Of a backbone that declares one the tokenizer alone: no model, no torch."""
        if chosen.info.codec is None:
            return self.backbone(chosen).codec
        codec: TextCodec = load_attribute(chosen.info.codec, chosen.entry.plugin)(chosen.settings)
        return codec

    def encoder(self, name: str) -> Encoder:
        if name not in self._encoders:
            entry, argument = self.host.encoders.resolve(name)
            self._encoders[name] = made(entry, argument)
        return self._encoders[name]

    def prompts(self, plan: RunPlan) -> list[Sample]:
        limit = plan.prompt_limit
        if limit is not None and limit > _MANY_PROMPTS:
            self._say_once(f"{limit:,} prompts of {plan.dataset.label} are read and checked first")
        with foreign_code(plan.dataset.entry):
            samples = list(made(plan.dataset.entry, plan.dataset.argument, limit))
        for sample in samples:
            _require_prompt(sample, plan.dataset)
        if not samples:
            raise ConfigError(f"dataset {plan.dataset.label!r} has no prompts")
        if len({sample.id for sample in samples}) < len(samples):
            raise ConfigError(f"dataset {plan.dataset.label!r} has two prompts with the same id")
        if taken := next((sample.id for sample in samples if prompt_id(sample.id) != sample.id), None):
            raise ConfigError(
                f"dataset {plan.dataset.label!r}: prompt id {taken!r} is that of a retry",
                why=f"it would be taken for a further answer to prompt {prompt_id(taken)!r}",
                hint="choose ids that do not end in ~ and a number",
            )
        if cut := next((sample.id for sample in samples if sample.id.endswith("\0")), None):
            raise ConfigError(
                f"dataset {plan.dataset.label!r}: prompt id {cut!r} ends in a zero character",
                why="arrays of strings, which keep the ids of scores, drop it",
                hint="choose ids that do not end in it",
            )
        wanted = plan.config.passed.get("samples")  # what a preset says is no promise
        if wanted is not None and len(samples) < wanted:
            self._say_once(f"{plan.dataset.label} has {len(samples):,} prompts, {wanted:,} were asked for")
        asked = samples[: plan.config.samples]
        if len(distinct := {sample.prompt for sample in asked}) < len(asked):
            self._say_once(
                f"{plan.dataset.label} has {len(distinct):,} different prompts: {len(asked):,} samples repeat them, "
                "each time with other randomness"
            )
        return samples[:limit]

    def _say_once(self, message: str) -> None:
        """Whatever number of schemes it holds for."""
        if message not in self._said:
            self._said.add(message)
            self.note(message)

    def null_texts(self, chosen: Resolved[DatasetInfo], limit: int) -> Iterator[NullText]:
        with foreign_code(chosen.entry):
            for null in made(chosen.entry, chosen.argument, limit):
                _require_null(null, chosen)
                yield null

    def scheme(self, plan: RunPlan, codec: TextCodec, key: SecretKey | None) -> object:
        return made(plan.scheme.entry, plan.scheme.settings, self._context(plan, codec, key))

    def _context(self, plan: RunPlan, codec: TextCodec, key: SecretKey | None) -> SchemeContext:
        return SchemeContext(codec, key, self.encoder, plan.decoding.block_length, plan.decoding.max_new_tokens)

    def detector(self, plan: RunPlan, codec: TextCodec) -> object:
        """The scheme as far as detection needs it; the keys come with the texts."""
        info = plan.scheme.info
        if info.detector is None:
            return self.scheme(plan, codec, None)
        entry = replace(plan.scheme.entry, info=replace(info, factory=info.detector))
        return made(entry, plan.scheme.settings, self._context(plan, codec, None))

    def attack(self, chosen: Resolved[Any]) -> object:
        return made(chosen.entry, chosen.settings)

    def key(self, plan: RunPlan) -> SecretKey | None:
        """The user's key when the scheme depends on it."""
        if plan.key_use != "secret":
            return None
        if self.writes_nothing and not _has_key(plan.config):
            return self._throw_away_key
        return load_key(plan.config, self.note)

    def require_usable_key(self, plan: RunPlan) -> None:
        """Refuse a key that is named and cannot be used, before anything is loaded. None is made yet."""
        if _has_key(plan.config):
            self.key(plan)

    @cached_property
    def _throw_away_key(self) -> SecretKey:
        self.note("you have no key yet: the first run makes one, and its folder is named by that key")
        return SecretKey.generate()

    def existing_key(self, plan: RunPlan) -> SecretKey | None:
        """The same for detection, where a key made on the spot could not have marked anything."""
        if not _has_key(plan.config):
            if plan.key_use == "secret":
                raise KeyFileError(
                    "there is no key to look for",
                    where=str(default_key_file()),
                    hint="name the key that marked the text with --key file:PATH or --key env:VARIABLE",
                )
            return None
        return self.key(plan)


def _require_prompt(found: object, dataset: Resolved[DatasetInfo]) -> None:
    """It will be hashed, tokenised and written to files, where nobody knows any more whose it was."""
    if not isinstance(found, Sample):
        raise _unusable(dataset, f"expected a Sample, got {type(found).__name__}")
    if not isinstance(found.id, str) or not isinstance(found.prompt, str):
        raise _unusable(dataset, f"id and prompt of a Sample are strings, got {found.id!r} and {found.prompt!r:.40}")
    try:
        json.dumps([found.index, dict(found.meta)], allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _unusable(dataset, f"index or meta of sample {found.id!r} cannot be written as JSON: {error}") from error


def _require_null(found: object, dataset: Resolved[DatasetInfo]) -> None:
    if not isinstance(found, NullText):
        raise _unusable(dataset, f"expected a NullText, got {type(found).__name__}")
    if not isinstance(found.id, str) or not isinstance(found.text, str):
        raise _unusable(dataset, f"id and text of a NullText are strings, got {found.id!r} and {found.text!r:.40}")


def _unusable(dataset: Resolved[DatasetInfo], why: str) -> PluginError:
    return PluginError(
        f"dataset {dataset.info.name!r} returned something that cannot be used",
        where=dataset.info.factory,
        why=why,
        hint=dataset.entry.plugin.remedy,
    )


def default_key_file() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(base) / "wmbench" / "key"


def _has_key(config: RunConfig) -> bool:
    return config.key is not None or DEFAULT_VARIABLE in os.environ or default_key_file().exists()


def load_key(config: RunConfig, note: Callable[[str], None] = lambda _: None) -> SecretKey:
    """The named key; else $WMBENCH_KEY; else the user's key file, made on first use so that a first run just works."""
    if config.key is not None:
        return key_source(config.key).load()
    if DEFAULT_VARIABLE in os.environ:
        return KeySource("env", DEFAULT_VARIABLE).load()
    path = default_key_file()
    if not path.exists():
        try:
            _make_key(path)
            note(f"made a secret key for you: {path}")
        except FileExistsError:
            pass  # another process was faster; its key is the user's key
        except OSError as error:
            raise KeyFileError(
                "the key cannot be saved", where=str(path), why=error.strerror, hint="set $WMBENCH_KEY"
            ) from error
    return KeySource("file", str(path)).load()


def _make_key(path: Path) -> None:
    """Whole or not at all: another process may look for it at this moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    SecretKey.generate().write(aside)
    try:
        os.link(aside, path)
    finally:
        aside.unlink()
