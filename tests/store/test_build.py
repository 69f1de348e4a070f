"""Factories are foreign code: whatever they raise names their plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store.helpers import demo_host, resolve
from wmbench.bench import factories
from wmbench.bench.build import Builder, default_key_file, load_key
from wmbench.bench.resolved import Resolved
from wmbench.config import RunConfig
from wmbench.errors import ConfigError, PluginError
from wmbench.host import Host
from wmbench.types import NullText, Sample


def raising(error: BaseException) -> Callable[..., Any]:
    def factory(*_: object) -> Any:
        raise error

    return factory


def raising_late(error: BaseException) -> Callable[..., Iterator[Any]]:
    def factory(*_: object) -> Iterator[Any]:
        yield from ()
        raise error

    return factory


@pytest.mark.parametrize("how", [raising, raising_late])
@pytest.mark.parametrize("error", [SystemExit(0), ZeroDivisionError("by zero")])
def test_a_factory_that_fails_names_its_plugin(
    monkeypatch: pytest.MonkeyPatch, how: Callable[..., Any], error: BaseException
) -> None:
    monkeypatch.setattr(factories, "load_attribute", lambda *_: how(error))
    plan = resolve({})
    builder = Builder(demo_host())
    with pytest.raises(PluginError, match=r"plugin runtime \(wmbench .* failed to build 'toy'"):
        builder.prompts(plan)
    with pytest.raises(PluginError, match=r"plugin lab \(wmbench .* failed to build 'lab'"):
        list(builder.null_texts(plan.nulls[0], 1))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ("a prompt", "expected a Sample, got str"),
        (Sample(0, "a b"), "id and prompt of a Sample are strings, got 0"),  # type: ignore[arg-type]
        (Sample("a", None), "id and prompt of a Sample are strings, got 'a' and None"),  # type: ignore[arg-type]
        (Sample("a", "a b", meta={"score": float("nan")}), "meta of sample 'a' cannot be written as JSON"),
        (Sample("a", "a b", meta={"when": object()}), "meta of sample 'a' cannot be written as JSON"),
    ],
)
def test_a_prompt_that_no_file_can_hold_names_its_dataset(
    monkeypatch: pytest.MonkeyPatch, found: object, why: str
) -> None:
    monkeypatch.setattr(factories, "load_attribute", lambda *_: lambda *_: [found])
    with pytest.raises(PluginError, match="dataset 'toy' returned something that cannot be used") as caught:
        Builder(demo_host()).prompts(resolve({}))
    assert why in str(caught.value.why)


@pytest.mark.parametrize("found", ["a text", NullText(0, "a b", "human"), NullText("a", None, "human")])  # type: ignore[arg-type]
def test_a_null_text_without_id_or_text_names_its_dataset(monkeypatch: pytest.MonkeyPatch, found: object) -> None:
    monkeypatch.setattr(factories, "load_attribute", lambda *_: lambda *_: [found])
    with pytest.raises(PluginError, match="dataset 'lab' returned something that cannot be used"):
        list(Builder(demo_host()).null_texts(resolve({}).nulls[0], 1))


def test_a_factory_in_a_file_names_its_line(tmp_path: Path) -> None:
    """Registered under the short name of its module."""
    source = """from wmbench import hookimpl
from wmbench.types import AttackInfo
@hookimpl
def register_attacks():
    return [AttackInfo("mine", "one line", "wmbench_inline_mine:make")]
def make(config):
    return bonus
"""
    (tmp_path / "mine.py").write_text(source)
    host = Host.discover([tmp_path / "mine.py"])
    with pytest.raises(PluginError) as caught:
        Builder(host).attack(Resolved(host.attacks["mine"], None, "mine"))
    assert caught.value.why == "NameError: name 'bonus' is not defined (mine.py:7)"
    assert str(caught.value.hint).startswith("correct the file")


def test_a_deliberate_error_of_a_factory_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factories, "load_attribute", lambda *_: raising(ConfigError("no weights")))
    with pytest.raises(ConfigError, match="no weights"):
        Builder(demo_host()).prompts(resolve({}))


def test_a_key_made_by_another_process_meanwhile_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("WMBENCH_KEY", raising=False)
    key = load_key(RunConfig())
    monkeypatch.setattr(Path, "exists", lambda self: False)  # as it was when this process looked
    notes: list[str] = []
    assert load_key(RunConfig(), notes.append) == key
    assert notes == []
    assert [path.name for path in default_key_file().parent.iterdir()] == ["key"]
