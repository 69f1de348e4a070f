"""Calls what plugins register, so that whatever they raise names the plugin."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wmbench.errors import PluginError, WmbenchError
from wmbench.foreign import told
from wmbench.host import Entry, load_attribute
from wmbench.types import DatasetInfo


def made(entry: Entry[Any], *arguments: object) -> Any:
    """What the factory builds."""
    factory = load_attribute(entry.info.factory, entry.plugin)
    with foreign_code(entry):
        return factory(*arguments)


def source_file(entry: Entry[DatasetInfo], argument: str) -> Path | None:
    """The file that a data set is read from, if any. A set that checks its argument refuses one that cannot work."""
    if entry.info.source is None:
        return Path(argument).expanduser() if argument else None
    source = load_attribute(entry.info.source, entry.plugin)
    with foreign_code(entry):
        found = source(argument)
        return None if found is None else Path(found)


@contextmanager
def foreign_code(entry: Entry[Any]) -> Iterator[None]:
    """Errors of a factory, or of a generator that it returned, name the plugin."""
    try:
        yield
    except (WmbenchError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"plugin {entry.plugin} failed to build {entry.info.name!r}",
            where=entry.info.factory,
            why=told(error, _module_of(entry)),
            hint=entry.plugin.remedy,
        ) from error


def _module_of(entry: Entry[Any]) -> str:
    """By its own name: an inline plugin is registered under a shorter one, too."""
    name = entry.info.factory.partition(":")[0]
    return getattr(sys.modules.get(name), "__name__", name)
