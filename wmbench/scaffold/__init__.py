"""Writes a plugin package to start from, for `wmbench new`: it works, it is tested, and it is meant to be replaced."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from wmbench import __version__
from wmbench.config import ALL, FEW, LOCAL
from wmbench.errors import ConfigError

if TYPE_CHECKING:
    from wmbench.host import Host

Kind = Literal["scheme", "attack"]
_NAME: Final = re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*")
_LONGEST_NAME: Final = 40
_DEPENDENCIES: Final = {"scheme": ("numpy", "pydantic", "torch"), "attack": ("pydantic",)}
_DESCRIPTIONS: Final = {"scheme": "a watermark for diffusion language models", "attack": "a text attack"}
_SUFFIX: Final = ".jinja"
"""So that no tool takes a template for a module."""


@dataclass(frozen=True, slots=True)
class NewPlugin:
    """A plugin to be written, by the names it needs."""

    kind: Kind
    name: str
    """What the user types."""

    @property
    def identifier(self) -> str:
        return self.name.replace("-", "_")

    @property
    def module(self) -> str:
        return f"wmbench_{self.identifier}"

    @property
    def distribution(self) -> str:
        return f"wmbench-{self.name.replace('_', '-')}"

    def render(self) -> dict[str, str]:
        """Every file by its path inside the package's folder."""
        from jinja2 import Environment, StrictUndefined

        environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)
        templates = files("wmbench.scaffold") / "templates"
        found = [pair for folder in ("both", self.kind) for pair in _walk(templates / folder)]
        words = self._words()
        return {self._path(path): environment.from_string(text).render(words) for path, text in found}

    def _words(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "identifier": self.identifier,
            "module": self.module,
            "distribution": self.distribution,
            "camel": "".join(part.capitalize() for part in self.identifier.split("_")),
            "description": f"{self.name}: {_DESCRIPTIONS[self.kind]}, as a plugin of wmbench",
            "dependencies": [*_DEPENDENCIES[self.kind], f"wmbench>={__version__}"],
        }

    def _path(self, path: str) -> str:
        path = path.removesuffix(_SUFFIX).replace("test_plugin", f"test_{self.identifier}")
        return f"{self.module}/{path.removeprefix('package/')}" if path.startswith("package/") else path


def _walk(folder: Traversable, above: str = "") -> Iterator[tuple[str, str]]:
    """Path and text of every template, in order."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _walk(entry, f"{above}{entry.name}/")
        elif entry.name.endswith(_SUFFIX):
            yield above + entry.name, entry.read_text(encoding="utf-8")


def require_free(plugin: NewPlugin, host: Host) -> None:
    """Refuse a name that no plugin can have, or that somebody has already."""
    name, kind = plugin.name, plugin.kind
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        why = f"at most {_LONGEST_NAME} small letters and digits, parts joined by _ or -, a letter first"
        near = _allowed(name)
        hint = f"did you mean {near!r}?" if near else "for instance my_mark"
        raise ConfigError(f"{name[: 2 * _LONGEST_NAME]!r} cannot be the name of a plugin", why=why, hint=hint)
    if name in (ALL, LOCAL, FEW):
        raise ConfigError(
            f"{name!r} stands for several {kind}s on the command line", hint=f"did you mean {f'my_{name}'!r}?"
        )
    registry = host.schemes if kind == "scheme" else host.attacks
    owners = [registry[name].plugin] if name in registry else []
    owners += [record for record in host.plugins if record.name == name]
    if owners:
        what = f"{kind} {name!r}" if name in registry else f"a plugin {name!r}"
        raise ConfigError(
            f"{what} is installed already",
            where=f"plugin {owners[0]}",
            hint=f"did you mean {f'my_{name}'!r}? `wmbench ls` shows the names that are taken",
        )
    if importlib.util.find_spec(plugin.module) is not None:
        raise ConfigError(f"there is a module {plugin.module} already", hint=f"did you mean {f'my_{name}'!r}?")


def _allowed(name: str) -> str:
    """The nearest name that would do, if there is one."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    near = "_".join(words).lstrip("_0123456789")[:_LONGEST_NAME].rstrip("_")
    return near if _NAME.fullmatch(near) else ""


def write_plugin(plugin: NewPlugin, folder: Path) -> list[Path]:
    """Write the package into a folder that does not exist yet; what was written, in order."""
    rendered = plugin.render()
    try:
        folder.mkdir(parents=True)
        written = []
        for path, text in rendered.items():
            target = folder / path
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8")
            written.append(target)
    except FileExistsError as error:
        raise ConfigError(
            "the folder exists already", where=str(folder), why="nothing is overwritten", hint="choose one by --folder"
        ) from error
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(
            "the folder cannot be written", where=str(folder), why=why, hint="choose another one by --folder"
        ) from error
    return written
