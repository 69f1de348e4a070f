"""The plug-in host: finds plugins, isolates the broken ones, and resolves names to what plugins registered.

    host = Host.discover()
    host.schemes["denmark"].info, host.plugins, host.commands

Plugins are modules (or objects) with `@hookimpl` functions, found through the entry-point group `wmbench` or given as
a file. Each is loaded, checked and asked for its registrations on its own: one that fails is reported by name,
version and reason, and the others work. `WMBENCH_STRICT_PLUGINS=1` makes a failure fatal;
`WMBENCH_DISABLE_PLUGINS=a,b` leaves plugins out.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import pluggy

from wmbench import __version__
from wmbench.errors import ConfigError, PluginError
from wmbench.foreign import place_in_file, told
from wmbench.hookspecs import DISCOVERY_HOOKS, PROJECT, DiscoverySpecs
from wmbench.registry import INLINE, flaw
from wmbench.registry import Entry as Entry
from wmbench.registry import PluginRecord as PluginRecord
from wmbench.registry import Registry as Registry
from wmbench.types import AttackInfo, BackboneEntry, DatasetInfo, EncoderInfo, Registered, SchemeInfo

STRICT_VARIABLE = "WMBENCH_STRICT_PLUGINS"
DISABLE_VARIABLE = "WMBENCH_DISABLE_PLUGINS"
ENTRY_POINT_GROUP = "wmbench"
COMMAND_GROUPS = ("analyse",)
"""Groups of commands that plugins may add to, with a command named `analyse my-figure`."""


@dataclass
class Host:
    """What is installed."""

    plugins: list[PluginRecord] = field(default_factory=list)
    schemes: Registry[SchemeInfo] = field(default_factory=lambda: Registry("scheme"))
    attacks: Registry[AttackInfo] = field(default_factory=lambda: Registry("attack"))
    backbones: Registry[BackboneEntry] = field(default_factory=lambda: Registry("backbone"))
    datasets: Registry[DatasetInfo] = field(default_factory=lambda: Registry("dataset"))
    encoders: Registry[EncoderInfo] = field(default_factory=lambda: Registry("encoder"))
    commands: dict[str, tuple[str, str, PluginRecord]] = field(default_factory=dict)
    """Extra commands by name: import path, help, plugin."""
    reserved_commands: frozenset[str] = frozenset()
    """Names that no plugin may take."""
    strict: bool = False

    @classmethod
    def discover(cls, files: Iterable[str | Path] = (), reserved_commands: Iterable[str] = ()) -> Host:
        """Load every installed plugin and the given plugin files, one at a time."""
        is_strict = os.environ.get(STRICT_VARIABLE, "") not in ("", "0")
        host = cls(reserved_commands=frozenset(reserved_commands), strict=is_strict)
        disabled = {name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",") if name.strip()}
        for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda p: p.name):
            if point.name not in disabled:
                host._load_entry_point(point)
        paths = [Path(file) for file in files]
        for path in paths:
            host._load_file(path, has_namesake=sum(other.stem == path.stem for other in paths) > 1)
        return host

    def _load_entry_point(self, point: EntryPoint) -> None:
        distribution = point.dist.name if point.dist else "?"
        version = point.dist.version if point.dist else "?"
        record = PluginRecord(point.name, distribution, version)
        try:
            plugin = point.load()
        except (Exception, SystemExit) as error:  # a plugin may raise anything at import
            self._fail(record, f"import of {point.value} failed: {type(error).__name__}: {error}", error)
            return
        self.register(plugin, record)

    def _load_file(self, path: Path, *, has_namesake: bool) -> None:
        """An inline plugin: one Python file given with --plugin. Its errors are the user's own, so always fatal."""
        if not path.is_file():
            problem = "is a folder" if path.is_dir() else "does not exist"
            raise ConfigError(f"plugin file {str(path)!r} {problem}", hint="check the path given to --plugin")
        alias = f"wmbench_inline_{path.stem}"
        module_name = f"{alias}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise ConfigError(f"plugin file {str(path)!r} is not a Python file", hint="it must end in .py")
        module = importlib.util.module_from_spec(spec)
        # Factories are import paths: f"{__name__}:attribute", or `wmbench_inline_<stem>:attribute` if only one file can
        # be meant.
        sys.modules[module_name] = module
        if has_namesake:
            sys.modules.pop(alias, None)
        else:
            sys.modules[alias] = module
        record = PluginRecord(path.stem, str(path), INLINE)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            raise PluginError(
                f"plugin file {str(path)!r} does not load",
                where=place_in_file(error, path),
                why=f"{type(error).__name__}: {getattr(error, 'msg', None) or error}",
                hint="correct the file; --debug shows the traceback",
            ) from error
        self.register(module, record, is_inline=True)

    def register(self, plugin: object, record: PluginRecord, *, is_inline: bool = False) -> None:
        """Check one plugin's hooks and take over what it registers; all or nothing."""
        manager = pluggy.PluginManager(PROJECT)
        manager.add_hookspecs(DiscoverySpecs)
        try:
            manager.register(plugin, record.name)
            manager.check_pending()
            record = replace(record, hooks=tuple(c.name for c in manager.get_hookcallers(plugin) or ()))
            if not record.hooks:
                raise PluginError("it registers nothing: a module-level hook such as register_schemes is missing")
            module = str(getattr(plugin, "__name__", type(plugin).__module__))
            results = {hook: _ask(manager, hook, module) for hook in DISCOVERY_HOOKS}
            if silent := [hook for hook in record.hooks if not results[hook]]:  # pluggy drops None
                raise PluginError(f"hook {silent[0]} returned nothing, expected a list")
            found = {hook: _flatten(hook, results[hook]) for hook in DISCOVERY_HOOKS}
            self._check_conflicts(found, record)
        except Exception as error:
            message = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
            self._fail(record, f"registration failed: {message}", error, is_inline)
            return
        for registry, infos in self._by_registry(found):
            for info in infos:
                registry.add(info, record)
        for name, path, summary in found["register_commands"]:
            self.commands[name] = (path, summary, record)
        self.plugins.append(record)

    def _by_registry(self, found: Mapping[str, list[Any]]) -> list[tuple[Registry[Any], list[Any]]]:
        return [
            (self.schemes, found["register_schemes"]),
            (self.attacks, found["register_attacks"]),
            (self.backbones, found["register_backbones"]),
            (self.datasets, found["register_datasets"]),
            (self.encoders, found["register_encoders"]),
        ]

    def _check_conflicts(self, found: Mapping[str, list[Any]], record: PluginRecord) -> None:
        for registry, infos in self._by_registry(found):
            seen: set[str] = set()
            for info in infos:
                taken = registry._entries.get(info.name)
                if taken is not None or info.name in seen:
                    owner = taken.plugin if taken else record
                    raise PluginError(
                        f"{registry.kind} {info.name!r} is already registered by {owner}; {record} is refused"
                    )
                seen.add(info.name)
        own: set[str] = set()
        for name, _, _ in found["register_commands"]:
            group, space, _ = name.partition(" ")
            if space and group not in COMMAND_GROUPS:
                raise PluginError(f"command {name!r} belongs to no group; groups are: {', '.join(COMMAND_GROUPS)}")
            if name in self.reserved_commands:
                raise PluginError(f"command {name!r} is one of wmbench's own; {record} is refused")
            if name in self.commands or name in own:
                owner = self.commands[name][2] if name in self.commands else record
                raise PluginError(f"command {name!r} is already registered by {owner}; {record} is refused")
            own.add(name)

    def _fail(self, record: PluginRecord, why: str, cause: BaseException, is_inline: bool = False) -> None:
        if is_inline:
            hint = "correct the file (docs/write-a-scheme.md has one to copy)"
            raise PluginError(f"plugin file {record.distribution!r} does not load", why=why, hint=hint) from cause
        if self.strict:
            raise PluginError(
                f"plugin {record} does not load", why=why, hint=f"unset {STRICT_VARIABLE} to go on without it"
            ) from cause
        self.plugins.append(replace(record, error=why))


_EXPECTED: dict[str, type[Any]] = {
    "register_schemes": SchemeInfo,
    "register_attacks": AttackInfo,
    "register_backbones": BackboneEntry,
    "register_datasets": DatasetInfo,
    "register_encoders": EncoderInfo,
    "register_commands": tuple,
}


def _ask(manager: pluggy.PluginManager, hook: str, module: str) -> list[Any]:
    try:
        answers: list[Any] = getattr(manager.hook, hook)()
    except (Exception, SystemExit) as error:  # registration code is foreign code
        raise PluginError(f"hook {hook} raised {told(error, module)}") from error
    return answers


def _flatten(hook: str, results: Iterable[Any]) -> list[Any]:
    """All registrations of one hook, checked for their type."""
    items = []
    for result in results:
        if not isinstance(result, (list, tuple)):
            raise PluginError(
                f"hook {hook} returned {type(result).__name__}, expected a list of {_EXPECTED[hook].__name__}"
            )
        for item in result:
            if not isinstance(item, _EXPECTED[hook]):
                raise PluginError(f"hook {hook} returned a {type(item).__name__}, expected {_EXPECTED[hook].__name__}")
            if isinstance(item, Registered) and (wrong := flaw(item)):
                raise PluginError(wrong)
            items.append(item)
    return items


def load_attribute(path: str, plugin: PluginRecord | None = None) -> Any:
    """The object behind an import path `package.module:attribute`."""
    owner = f"plugin {plugin}" if plugin else f"wmbench {__version__}"
    module_name, colon, attribute = path.partition(":")
    try:
        if not colon:
            raise PluginError(f"{path!r} is not of the form package.module:attribute")
        target: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            target = getattr(target, part)
    except (Exception, SystemExit) as error:  # a module may raise anything at import
        is_inline = plugin is not None and plugin.version == INLINE
        raise PluginError(
            f"{owner} cannot load {path!r}",
            why=told(error, module_name),
            hint="correct the file" if is_inline else "reinstall or update the plugin",
        ) from error
    return target
