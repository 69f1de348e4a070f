"""Rules of the design that a reader could not check at a glance."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from wmbench.host import Host

ROOT = Path(__file__).parents[2]
PLUGIN_FILES = sorted([*ROOT.glob("plugins/*/*/**/*.py"), *ROOT.glob("attacks/*/**/*.py")])
PUBLIC_MODULES = frozenset(
    re.findall(r"^\| `(wmbench[\w.]*)` \|", (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8"), re.MULTILINE)
)
"""The table at the end of docs/hooks.md is the definition."""


# --- built-ins have no private path --------------------------------------------------------------------------------


def private_uses(source: str) -> list[str]:
    """Imports of wmbench modules that are not public, and private names of other objects."""
    faults = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            faults += [alias.name for alias in node.names if _is_private_module(alias.name)]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            faults += [node.module] if _is_private_module(node.module) else []
            faults += [f"{node.module}.{a.name}" for a in node.names if _names_a_submodule(node.module, a.name)]
            if node.module.split(".")[0] == "wmbench":
                faults += [f"{node.module}.{a.name}" for a in node.names if _is_underscored(a.name)]
        elif isinstance(node, ast.Attribute) and _is_underscored(node.attr):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            faults += [] if owner in ("self", "cls") else [f"{owner}.{node.attr}"]
    return faults


def _is_private_module(name: str) -> bool:
    return name.split(".")[0] == "wmbench" and name not in PUBLIC_MODULES


def _names_a_submodule(module: str, name: str) -> bool:
    """`from wmbench import host` imports a module although `wmbench` itself is public."""
    path = ROOT.joinpath(*module.split("."), name)
    return module.split(".")[0] == "wmbench" and _is_private_module(f"{module}.{name}") and (
        path.is_dir() or path.with_suffix(".py").is_file()
    )  # fmt: skip


def _is_underscored(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_public_modules_are_documented() -> None:
    assert {"wmbench", "wmbench.types", "wmbench.runtime.step", "wmbench.testing"} <= PUBLIC_MODULES
    for module in PUBLIC_MODULES:
        path = ROOT.joinpath(*module.split("."))
        assert path.is_dir() or path.with_suffix(".py").is_file(), f"{module} is documented but does not exist"


@pytest.mark.parametrize("path", PLUGIN_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_builtin_plugin_uses_public_names_only(path: Path) -> None:
    assert private_uses(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "import wmbench.host",
        "from wmbench.host import Host",
        "from wmbench import host",
        "from wmbench.runtime import loop",
        "from wmbench.runtime.loop import decode",
        "from wmbench.keys import _hmac",
        "def f(step): return step._advance",
        "def f():\n    from wmbench.run_hooks import RunHooks",
    ],
)
def test_private_use_is_noticed(source: str) -> None:
    assert private_uses(source)


def test_public_use_is_allowed() -> None:
    assert not private_uses("from wmbench import hookimpl\nfrom wmbench.types import Commit\nimport wmbench.keys\n")
    assert not private_uses("class A:\n    def f(self): return self._own\n")


# --- one loop for all ----------------------------------------------------------------------------------------------


def test_loop_is_short_and_knows_no_names() -> None:
    source = (ROOT / "wmbench" / "runtime" / "loop.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 150
    host = Host.discover()
    planned = {"denmark", "kgw", "dgmark", "patternmark", "umr", "llada", "dream", "llada2", "tiny", "mini"}
    names = {name.rstrip(":") for name in [*host.schemes, *host.backbones]} | planned
    for name in names:
        # Python's None is not the scheme `none`.
        flags = 0 if name == "none" else re.IGNORECASE
        assert not re.search(rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z])", source, flags), f"the loop names {name!r}"


# --- discovery is cheap --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    ["from wmbench.host import Host; assert list(Host.discover().schemes)", "import wmbench.testing.plugin",
     "import wmbench.detection.verdicts"],
)  # fmt: skip
def test_torch_is_not_imported(code: str) -> None:
    check = f"{code}\nimport sys\nassert 'torch' not in sys.modules, 'torch was imported'"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_builtin_plugins_load() -> None:
    failed = {str(plugin): plugin.error for plugin in Host.discover().plugins if plugin.error}
    assert failed == {}
    assert {"none"} <= set(Host.discover().schemes)
    assert {"identity"} <= set(Host.discover().attacks)
