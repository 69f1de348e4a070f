"""What an attack lacks shows before anything is decoded; a text that it cannot bear fails alone."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.helpers import info
from tests.pipeline.helpers import prepared
from wmbench.bench.attack_files import isolated
from wmbench.errors import ConfigError, PluginError, UnknownNameError
from wmbench.testing.harness import build
from wmbench.types import Attacked, AttackInput


@pytest.mark.parametrize(
    ("attack", "settings", "message"),
    [
        ("copy-paste", {"filler": "nowhere"}, "unknown dataset 'nowhere'"),
        ("copy-paste", {"filler": "toy"}, "holds prompts, not null texts"),
        ("copy-paste", {"filler": "texts:nowhere.jsonl"}, "cannot be read"),
        ("nonuniform-regions", {"compress": "lab-rewrite"}, "no setting 'shortest'"),
        ("round-trip", {"pivot": "zh"}, "from 'en' to 'zh' and back"),
    ],
)
def test_what_cannot_work_is_refused_before_decoding(
    attack: str, settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, UnknownNameError), match=message):
        prepared(tmp_path / "runs", attacks=[{"name": attack, "params": settings}])
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("nonuniform-runs", "nupunkt", "attacks"),
        ("nonuniform-regions", "nupunkt", "attacks"),
        ("llm-rewrite", "nupunkt", "attacks"),
        ("llm-rewrite", "openai", "llm"),
        ("llm-document-rewrite", "openai", "llm"),
        ("parrot", "transformers", "hf"),
    ],
)
def test_a_missing_package_is_named_when_an_attack_is_built(
    name: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_there: Callable[[str], object] = lambda found: None if found == package else object()  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", is_there)
    with pytest.raises(ConfigError, match=package) as caught:
        build(info(name), {"api_key_env": None} if name.startswith("llm-") else {})
    assert caught.value.hint == f"pip install 'wmbench[{extra}]'"


def test_one_text_that_an_attack_raises_on_fails_alone() -> None:
    """Also when the others of its batch fail, too, but in good order."""

    def attack(batch: Sequence[AttackInput]) -> list[Attacked]:
        if any(item.id == "bad" for item in batch):
            raise PluginError("plugin x failed", why="ValueError: bad")
        return [Attacked(None, "too short") for _ in batch]

    bad, short = AttackInput("bad", "x"), AttackInput("short", "y")
    assert [result.error for result in isolated([short, bad], attack, worked=False)] == [
        "too short",
        "plugin x failed: ValueError: bad",
    ]
    with pytest.raises(PluginError):
        isolated([bad], attack, worked=False)
    assert isolated([bad], attack, worked=True)[0].text is None
