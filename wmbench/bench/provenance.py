"""With what a run was made."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from wmbench import __version__
from wmbench.host import PluginRecord

_PACKAGES: Final = ("numpy", "pluggy", "pydantic", "tokenizers", "torch")


def versions(plugins: Iterable[PluginRecord]) -> dict[str, str]:
    """Versions of everything that can change a text: the interpreter, the libraries, the plugins in use."""
    found = {"python": platform.python_version(), "wmbench": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    found.update({f"plugin {plugin.name}": f"{plugin.distribution} {plugin.version}" for plugin in plugins})
    return found


def machine() -> dict[str, str]:
    return {"system": platform.system(), "release": platform.release(), "machine": platform.machine()}
