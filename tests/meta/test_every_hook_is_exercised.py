"""Every hook is called through the host, with the arguments of its specification, and its result arrives."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from wmbench import hookimpl
from wmbench.detection import Calibration
from wmbench.hookspecs import DISCOVERY_HOOKS, RUN_HOOKS
from wmbench.host import Host, PluginRecord
from wmbench.run_hooks import RunHooks
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.step import Step
from wmbench.testing import tiny_backbone, toy_key, toy_samples
from wmbench.testing.harness import SHORT
from wmbench.types import (
    AttackContext,
    Attacked,
    AttackInfo,
    AttackInput,
    BackboneEntry,
    DatasetInfo,
    EncoderInfo,
    Features,
    SchemeInfo,
    TextContext,
    Verdict,
    Views,
)

RECORD = PluginRecord("everything", "tests", "0")
CONTEXT = TextContext(alpha=0.5)
FEATURES = Features.pack([np.array([3])], [1])
VIEWS = Views(("v",), np.array([[1.0]]))


class Everything:
    """Implements every hook with all its arguments, and records what it was called with."""

    def __init__(self) -> None:
        self.calls: dict[str, dict[str, Any]] = {}

    @hookimpl
    def register_schemes(self) -> Any:
        self.calls["register_schemes"] = {}
        return [SchemeInfo("s", "", "m:s")]

    @hookimpl
    def register_attacks(self) -> Any:
        self.calls["register_attacks"] = {}
        return [AttackInfo("a", "", "m:a")]

    @hookimpl
    def register_backbones(self) -> Any:
        self.calls["register_backbones"] = {}
        return [BackboneEntry("b", "", "m:b")]

    @hookimpl
    def register_datasets(self) -> Any:
        self.calls["register_datasets"] = {}
        return [DatasetInfo("d", "", "m:d")]

    @hookimpl
    def register_encoders(self) -> Any:
        self.calls["register_encoders"] = {}
        return [EncoderInfo("e", "", "m:e")]

    @hookimpl
    def register_commands(self) -> Any:
        self.calls["register_commands"] = {}
        return [("c", "m:c", "help")]


class EveryRunHook:
    def __init__(self) -> None:
        self.calls: dict[str, dict[str, Any]] = {}

    @hookimpl
    def begin(self, sample: Any) -> Any:
        self.calls["begin"] = {"sample": sample}
        return f"state of {sample.id}"

    @hookimpl
    def decode_step(self, step: Step) -> Any:
        assert all(row.state == f"state of {row.sample.id}" for row in step.rows)
        self.calls["decode_step"] = {"step": step}
        return step.commit()

    @hookimpl
    def features(self, texts: Any, context: Any) -> Any:
        self.calls["features"] = {"texts": texts, "context": context}
        return FEATURES

    @hookimpl
    def score(self, features: Any, key: Any, context: Any) -> Any:
        self.calls["score"] = {"features": features, "key": key, "context": context}
        return VIEWS

    @hookimpl
    def detect(self, views: Any, calibration: Any, context: Any) -> Any:
        self.calls["detect"] = {"views": views, "calibration": calibration, "context": context}
        return [Verdict(0.25, 1.0, True, context.alpha, "v", "test")]

    @hookimpl
    def attack(self, texts: Any, context: Any) -> Any:
        self.calls["attack"] = {"texts": texts, "context": context}
        return [Attacked(item.text.upper()) for item in texts]


def generate(hooks: RunHooks) -> Any:
    engine = make_engine(tiny_backbone(), SHORT)
    return list(decode(toy_samples(2), engine, SHORT, hooks.decode_step, hooks.begin))


CALIBRATION = Calibration(np.zeros((9, 1)), ("v",))
CODEC = tiny_backbone().codec
RUNS: dict[str, tuple[Callable[[RunHooks], Any], Callable[[Any], bool]]] = {
    "begin": (generate, lambda generations: len(generations) == 2),
    "decode_step": (generate, lambda generations: len(generations) == 2),
    "features": (lambda hooks: hooks.features(["w3"], CONTEXT), lambda result: result is FEATURES),
    "score": (lambda hooks: hooks.score(FEATURES, toy_key(), CONTEXT), lambda result: result is VIEWS),
    "detect": (lambda hooks: hooks.detect(VIEWS, CALIBRATION, CONTEXT), lambda result: result[0].p_value == 0.25),
    "attack": (
        lambda hooks: hooks.attack([AttackInput("x", "one")], AttackContext(0, CODEC)),
        lambda result: result[0].text == "ONE",
    ),
}


def test_nothing_is_left_out() -> None:
    assert set(RUNS) == set(RUN_HOOKS)


@pytest.mark.parametrize("hook", DISCOVERY_HOOKS)
def test_discovery_hook_is_called(hook: str) -> None:
    plugin, host = Everything(), Host(strict=True)
    host.register(plugin, RECORD)
    assert hook in plugin.calls
    registry = getattr(host, hook.removeprefix("register_"))
    assert len(registry) == 1, "what the hook returned is registered"


@pytest.mark.parametrize("hook", RUN_HOOKS)
def test_run_hook_is_called(hook: str) -> None:
    plugin = EveryRunHook()
    call, arrived = RUNS[hook]
    assert arrived(call(RunHooks(plugin, RECORD, codec=CODEC)))
    expected = [name for name in inspect.signature(getattr(plugin, hook)).parameters if name != "self"]
    assert list(plugin.calls[hook]) == expected
    assert all(value is not None for value in plugin.calls[hook].values())
