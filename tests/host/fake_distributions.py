"""Installs made-up distributions: a folder with a module and a *.dist-info, put on the import path."""

from __future__ import annotations

import itertools
import textwrap
from pathlib import Path

import pytest

_numbers = itertools.count()


class FakeDistributions:
    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        monkeypatch.syspath_prepend(str(folder))

    def install(self, plugin: str, source: str, distribution: str | None = None, version: str = "1.2.3") -> str:
        """Write a plugin module and register it; returns the module's name. Modules are never named alike."""
        distribution = distribution or f"wmbench-{plugin}"
        module = f"fake_{plugin}_{next(_numbers)}"
        (self._folder / f"{module}.py").write_text(textwrap.dedent(source).replace("MODULE", module))
        info = self._folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[wmbench]\n{plugin} = {module}\n")
        self._monkeypatch.syspath_prepend(str(self._folder))  # drops the caches of importlib.metadata
        return module


SCHEME = """
    from wmbench import hookimpl
    from wmbench.types import SchemeInfo

    @hookimpl
    def register_schemes():
        return [SchemeInfo(name="{name}", summary="made up", factory="MODULE:make", alg_id="org.example.1")]

    def make(config, context):
        return "built"
"""


def scheme_source(name: str) -> str:
    return SCHEME.replace("{name}", name)
