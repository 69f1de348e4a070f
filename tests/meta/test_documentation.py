"""Hooks, their documentation, their Protocols and the guide cannot drift apart."""

from __future__ import annotations

import inspect
import re
import sys
import tomllib
import types
from pathlib import Path

import pytest

from wmbench import protocols
from wmbench.hookspecs import DISCOVERY_HOOKS, RUN_HOOKS, DiscoverySpecs, RunSpecs
from wmbench.host import Host
from wmbench.testing import SchemeContract, tiny_backbone

ROOT = Path(__file__).parents[2]
HOOKS_DOC = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "docs" / "write-a-scheme.md").read_text(encoding="utf-8")


def specification(hook: str) -> inspect.Signature:
    return inspect.signature(getattr(DiscoverySpecs if hook in DISCOVERY_HOOKS else RunSpecs, hook))


def without_self(signature: inspect.Signature) -> str:
    """As written in the documentation: no self, and annotations without the quotes of postponed evaluation."""
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    return str(signature.replace(parameters=parameters)).replace("'", "")


def section(hook: str) -> str:
    found = re.search(rf"^### {hook}\n(.*?)(?=^##)", HOOKS_DOC, re.DOTALL | re.MULTILINE)
    assert found, f"docs/hooks.md has no section on {hook}"
    return found[1]


def test_run_hooks_are_all_listed() -> None:
    specs = {name for name, _ in inspect.getmembers(RunSpecs, inspect.isfunction)}
    assert specs == set(RUN_HOOKS)


@pytest.mark.parametrize("hook", [*DISCOVERY_HOOKS, *RUN_HOOKS])
def test_hook_is_documented_with_its_signature(hook: str) -> None:
    text = section(hook)
    assert f"```python\ndef {hook}{without_self(specification(hook))}\n```" in text
    assert "Called " in text, "say when it is called"
    assert "Returns " in text, "say what it returns"
    assert "@hookimpl" in text, "give an example"


def test_documentation_names_no_other_hooks() -> None:
    assert set(re.findall(r"^### (\w+)$", HOOKS_DOC, re.MULTILINE)) == {*DISCOVERY_HOOKS, *RUN_HOOKS}


def test_protocols_mirror_the_specifications() -> None:
    mirrored = {}
    for _, protocol in inspect.getmembers(protocols, inspect.isclass):
        if protocol.__module__ == protocols.__name__:
            mirrored |= {n: f for n, f in vars(protocol).items() if not n.startswith("_") and inspect.isfunction(f)}
    assert set(mirrored) == set(RUN_HOOKS)
    for hook, function in mirrored.items():
        assert inspect.signature(function) == specification(hook), hook


# --- the guide's example is real -----------------------------------------------------------------------------------


def code_block(language: str, containing: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)
    return next(block for block in blocks if containing in block)


def test_guide_fits_sixty_lines() -> None:
    assert len(code_block("python", "register_schemes").splitlines()) <= 60


def test_guide_example_runs_as_an_inline_plugin(tmp_path: Path) -> None:
    file = tmp_path / "greenlist.py"
    file.write_text(code_block("python", "register_schemes"))
    info = Host.discover([file]).schemes["greenlist"].info
    contract = type("Guide", (SchemeContract,), {"info": info, "settings": {"delta": 3.0}})()
    backbone = tiny_backbone("block")
    contract.test_is_described()
    contract.test_key_decides_the_tokens(backbone)
    contract.test_never_unmarked_in_silence(backbone)
    contract.test_marked_texts_score_higher(backbone)
    contract.test_verdicts(backbone)


def test_guide_package_registers_the_plugin() -> None:
    project = tomllib.loads(code_block("toml", "entry-points"))["project"]
    assert project["entry-points"]["wmbench"] == {"greenlist": "greenlist"}


def test_guide_contract_test_is_real(monkeypatch: pytest.MonkeyPatch) -> None:
    guide = types.ModuleType("greenlist")
    monkeypatch.setitem(sys.modules, "greenlist", guide)
    exec(code_block("python", "register_schemes"), vars(guide))
    namespace: dict[str, object] = {}
    exec(code_block("python", "SchemeContract"), namespace)
    contract = namespace["TestGreenList"]
    assert isinstance(contract, type)
    assert issubclass(contract, SchemeContract)
    contract().test_is_described()
