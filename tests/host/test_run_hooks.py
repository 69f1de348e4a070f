"""One scheme per run; whatever goes wrong in its hooks is named with plugin, version and hook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wmbench import hookimpl
from wmbench.detection import Calibration
from wmbench.errors import CalibrationError, ConfigError, PluginError
from wmbench.host import Host, PluginRecord, load_attribute
from wmbench.run_hooks import RunHooks
from wmbench.runtime.backbones.tiny import ToyCodec
from wmbench.types import (
    AttackContext,
    Attacked,
    AttackInput,
    Commit,
    Evidence,
    Features,
    Sample,
    TextContext,
    Verdict,
    Views,
)

RECORD = PluginRecord("mine", "my-dist", "4.5")
CODEC = ToyCodec(61)
CONTEXT = TextContext(alpha=0.1)
VIEWS = Views(("a", "b"), np.array([[3.0, 0.0], [0.0, 0.0]]))
FEATURES = Features.pack([np.array([3, 4]), np.array([5])], [2, 1])
ITEMS = [AttackInput("x", "one"), AttackInput("y", "two")]


def plugin_with(**hooks: Callable[..., Any]) -> object:
    return type("Mine", (), {name: hookimpl(staticmethod(function)) for name, function in hooks.items()})()


def hooks_with(**hooks: Callable[..., Any]) -> RunHooks:
    return RunHooks(plugin_with(decode_step=lambda step: Commit.of(), **hooks), RECORD, codec=CODEC)


CALLS: dict[str, Callable[[RunHooks], Any]] = {
    "begin": lambda hooks: hooks.begin(Sample("s", "p")),
    "decode_step": lambda hooks: hooks.decode_step(SimpleNamespace()),  # type: ignore[arg-type]
    "features": lambda hooks: hooks.features(["one", "two"], CONTEXT),
    "score": lambda hooks: hooks.score(FEATURES, None, CONTEXT),
    "detect": lambda hooks: hooks.detect(VIEWS, None, CONTEXT),
    "attack": lambda hooks: hooks.attack(ITEMS, AttackContext(0, CODEC)),
}


def raising(error: BaseException) -> dict[str, Callable[..., Any]]:
    def fail(*arguments: Any) -> Any:
        raise error

    return {
        "begin": lambda sample: fail(),
        "decode_step": lambda step: fail(),
        "features": lambda texts: fail(),
        "score": lambda features: fail(),
        "detect": lambda views: fail(),
        "attack": lambda texts: fail(),
    }


@pytest.mark.parametrize("hook", CALLS)
def test_error_in_a_hook_is_named(hook: str) -> None:
    hooks = RunHooks(plugin_with(**{hook: raising(ZeroDivisionError("by zero"))[hook]}), RECORD, codec=CODEC)
    with pytest.raises(PluginError) as caught:
        CALLS[hook](hooks)
    assert caught.value.exit_code == 3
    for part in ("mine (my-dist 4.5)", f"hook {hook}", "ZeroDivisionError: by zero"):
        assert part in str(caught.value)


def scheme_file(folder: Path, body: str) -> RunHooks:
    """A plugin in one file, as --plugin loads it; the body begins in line 12."""
    source = f"""
from wmbench import hookimpl
from wmbench.types import *
import numpy as np
class Mine:
    def __init__(self, config, context):
        pass
    @hookimpl
    def decode_step(self, step): pass
    @hookimpl
    def score(self, features):
        {body}
@hookimpl
def register_schemes():
    return [SchemeInfo("mine", "one line", f"{{__name__}}:Mine")]
"""
    (folder / "mine.py").write_text(source)
    entry = Host.discover([folder / "mine.py"]).schemes["mine"]
    return RunHooks(load_attribute(entry.info.factory, entry.plugin)(None, None), entry.plugin, codec=CODEC)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return bonuss", "NameError: name 'bonuss' is not defined (mine.py:12)"),
        ("return np.zeros(2).reshape(3)", "into shape (3,) (mine.py:12)"),
    ],
)
def test_the_line_of_a_file_is_named_to_its_author(tmp_path: Path, body: str, why: str) -> None:
    """The innermost one in the file, not in a library that it calls."""
    with pytest.raises(PluginError) as caught:
        scheme_file(tmp_path, body).score(FEATURES, None, CONTEXT)
    assert str(caught.value.why).endswith(why)
    assert str(caught.value.hint).startswith("correct the file")


def test_a_refusal_inside_of_a_hook_names_the_line(tmp_path: Path) -> None:
    body = 'from wmbench.errors import PluginError; raise PluginError("unsound", where="hook score")'
    with pytest.raises(PluginError) as caught:
        scheme_file(tmp_path, body).score(FEATURES, None, CONTEXT)
    assert caught.value.where == "hook score (mine.py:12)"


@pytest.mark.parametrize(
    ("hook", "result", "got"),
    [
        ("score", Views(("a",), np.zeros((3, 1))), "of shape (2, 1), got shape (3, 1)"),
        ("score", Views(("a",), [[1.0], [2.0]]), "got a list of 2 list"),  # type: ignore[arg-type]
        ("features", Features.pack([np.array([3])], [1]), "of 2 texts, got 1 lengths and 2 offsets"),
        ("detect", [0.5, 0.5], "2 Verdicts, got a list of 2 float"),
        ("attack", None, "2 Attacked, got NoneType"),
    ],
)
def test_a_wrong_shape_is_told(hook: str, result: Any, got: str) -> None:
    with pytest.raises(PluginError) as caught:
        CALLS[hook](RunHooks(plugin_with(**{hook: lambda: result}), RECORD, codec=CODEC))
    assert got in str(caught.value.why)


@pytest.mark.parametrize("hook", CALLS)
def test_exit_in_a_hook_is_an_error(hook: str) -> None:
    hooks = RunHooks(plugin_with(**{hook: raising(SystemExit(0))[hook]}), RECORD, codec=CODEC)
    with pytest.raises(PluginError, match=rf"mine \(my-dist 4\.5\) failed in hook {hook}"):
        CALLS[hook](hooks)


@pytest.mark.parametrize("hook", CALLS)
def test_deliberate_error_keeps_its_kind_and_says_where(hook: str) -> None:
    hooks = RunHooks(plugin_with(**{hook: raising(ConfigError("no key"))[hook]}), RECORD, codec=CODEC)
    with pytest.raises(ConfigError, match="no key") as caught:
        CALLS[hook](hooks)
    assert caught.value.exit_code == 2
    assert caught.value.where == f"plugin mine (my-dist 4.5), hook {hook}"


def verdict(p: float) -> Verdict:
    return Verdict(p, 1.0, True, 0.1, "a", "test")


def packed(offsets: Any, values: Any = (3, 4, 5), lengths: Any = (2, 1)) -> Features:
    return Features(np.array(offsets), np.array(values), np.array(lengths))


NONSENSE: list[tuple[str, Any]] = [
    ("decode_step", "tokens"),
    ("features", [[1, 2], [3]]),
    ("features", Features.pack([np.array([3])], [1])),
    ("features", 5),
    ("features", packed([0, 2, 4])),
    ("features", packed([0, 2, 2])),
    ("features", packed([0, 4, 3])),
    ("features", packed([1, 2, 3])),
    ("features", packed([0.0, 2.0, 3.0])),
    ("features", packed([0, 2, 3], values=7)),
    ("features", packed([0, 2, 3], lengths=["two", "one"])),
    ("features", Features([0, 2, 3], np.arange(3), np.array([2, 1]))),  # type: ignore[arg-type]
    ("score", 5),
    ("score", Views(5, np.zeros((2, 1)))),  # type: ignore[arg-type]
    ("score", Views(("a",), np.array([["high"], ["low"]]))),
    ("score", Views(("a",), np.array([[1.0], [None]]))),
    ("score", Views(("a",), [[1.0], [2.0]])),  # type: ignore[arg-type]
    ("score", np.zeros((2, 1))),
    ("score", Views(("a",), np.zeros(2))),
    ("score", Views(("a",), np.zeros((3, 1)))),
    ("score", Views((), np.zeros((2, 0)))),
    ("score", Views(("a",), np.array([[1.0], [np.nan]]))),
    ("detect", [verdict(0.5)]),
    ("detect", [0.5, 0.5]),
    ("detect", [verdict(0.5), verdict(0.0)]),
    ("detect", [verdict(0.5), verdict(1.5)]),
    ("detect", [verdict(0.5), verdict(float("nan"))]),
    ("detect", 5),
    ("detect", [verdict("small"), verdict(0.5)]),  # type: ignore[arg-type]
    ("detect", [verdict(0.5), replace(verdict(0.5), details={"z": np.float32(1)})]),
    ("detect", [verdict(0.5), replace(verdict(0.5), score=float("nan"))]),
    ("detect", [verdict(0.5), replace(verdict(0.5), evidence=(Evidence(0, 5, float("inf")),))]),
    ("detect", [verdict(0.5), replace(verdict(0.5), evidence=((0, 5, 1.0),))]),  # type: ignore[arg-type]
    ("detect", [verdict(0.5), replace(verdict(0.5), detected=np.True_)]),  # type: ignore[arg-type]
    ("attack", None),
    ("attack", 5),
    ("attack", [Attacked("one"), Attacked(2)]),  # type: ignore[arg-type]
    ("attack", [Attacked("one"), Attacked("two", details={"distance": np.float32(0.5)})]),
    ("attack", [Attacked("one"), Attacked("two", details={"distance": float("nan")})]),
    ("attack", [Attacked("one"), Attacked("two", details=[1])]),  # type: ignore[arg-type]
    ("attack", [Attacked("one")]),
    ("attack", ["one", "two"]),
    ("attack", [Attacked("one"), Attacked(None)]),
    ("attack", [Attacked("one"), Attacked("two", "but also an error")]),
]


@pytest.mark.parametrize(("hook", "result"), NONSENSE, ids=[f"{hook}-{i}" for i, (hook, _) in enumerate(NONSENSE)])
def test_wrong_shape_is_refused(hook: str, result: Any) -> None:
    hooks = RunHooks(plugin_with(**{hook: lambda: result}), RECORD, codec=CODEC)
    with pytest.raises(PluginError) as caught:
        CALLS[hook](hooks)
    for part in ("mine (my-dist 4.5)", f"hook {hook}"):
        assert part in str(caught.value)


@pytest.mark.parametrize("hook", ["decode_step", "score", "attack"])
def test_missing_hook_is_an_error(hook: str) -> None:
    hooks = RunHooks(plugin_with(begin=lambda: 1), RECORD, codec=CODEC)
    with pytest.raises((ConfigError, PluginError), match="mine"):
        CALLS[hook](hooks)


def test_a_forgotten_mark_is_guessed() -> None:
    class Forgetful:
        def score(self, features: Features) -> Views:
            return VIEWS

    class Absent(Forgetful):
        @hookimpl
        def begin(self, sample: Sample) -> int:
            return 1

    with pytest.raises(PluginError, match="put @hookimpl above the method score"):
        RunHooks(Forgetful(), RECORD)
    with pytest.raises(ConfigError, match="put @hookimpl above the method score"):
        CALLS["score"](RunHooks(Absent(), RECORD))


def test_plugin_without_hooks_is_refused() -> None:
    with pytest.raises(PluginError, match="implements no run hook"):
        RunHooks(object(), RECORD)


@pytest.mark.parametrize("hooks", [{"decode_steps": lambda step: None}, {"decode_step": lambda step, key: None}])
def test_unknown_hook_or_argument_is_refused(hooks: dict[str, Callable[..., Any]]) -> None:
    with pytest.raises(PluginError, match="does not fit the hooks"):
        RunHooks(plugin_with(**hooks), RECORD)


# --- defaults --------------------------------------------------------------------------------------------------


def test_default_features_are_token_ids() -> None:
    features = hooks_with().features(["w7 w8", ""], CONTEXT)
    assert features.of(0).tolist() == [7, 8]
    assert features.lengths.tolist() == [2, 0]


def test_default_verdict_is_empirical() -> None:
    """19 nulls, two views: the smallest p is 2/20."""
    nulls = np.stack([np.linspace(0, 1, 19), np.linspace(0, 1, 19)], axis=1)
    spans = (Evidence(0, 2, 1.5),)
    views = Views(VIEWS.names, VIEWS.scores, ({"a": spans, "b": ()}, {}))
    best, worst = hooks_with().detect(views, Calibration(nulls, ("a", "b")), CONTEXT)
    assert (best.p_value, best.detected, best.view, best.evidence) == (2 / 20, True, "a", spans)
    assert best.score == pytest.approx(np.log(10))
    assert best.details["raw_score"] == 3.0
    assert (worst.p_value, worst.score, worst.detected) == (1.0, 0.0, False)
    assert best.method == "empirical add-one, Bonferroni over 2 views"


def test_default_verdict_refuses_what_it_cannot_resolve() -> None:
    nulls = np.zeros((18, 2))
    with pytest.raises(CalibrationError, match="can never be reached"):
        hooks_with().detect(VIEWS, Calibration(nulls, ("a", "b")), CONTEXT)
    with pytest.raises(CalibrationError, match="different views"):
        hooks_with().detect(VIEWS, Calibration(np.zeros((99, 2)), ("a", "c")), CONTEXT)
    with pytest.raises(ConfigError, match="needs a calibration"):
        hooks_with().detect(VIEWS, None, CONTEXT)


def test_own_hooks_replace_the_defaults() -> None:
    own = [verdict(0.5), verdict(0.25)]
    hooks = hooks_with(detect=lambda views: own, features=lambda texts: FEATURES)
    assert hooks.detect(VIEWS, None, CONTEXT) == own
    assert hooks.features(["one", "two"], CONTEXT) is FEATURES


# --- observers -------------------------------------------------------------------------------------------------


class Watcher:
    def __init__(self) -> None:
        self.seen: list[Any] = []

    @hookimpl(wrapper=True)
    def begin(self, sample: Sample) -> Any:
        state = yield
        self.seen.append((sample.id, state))
        return state


def test_observers_wrap_the_scheme() -> None:
    first, second = Watcher(), Watcher()
    hooks = RunHooks(plugin_with(begin=lambda sample: "state"), RECORD, observers=[first, second])
    assert hooks.begin(Sample("s", "p")) == "state"
    assert first.seen == second.seen == [("s", "state")]


@pytest.mark.parametrize("result", [None, [(0, 1, 2)], replace(Commit.of(), rows=[0])])
def test_observers_see_no_malformed_commit(result: Any) -> None:
    """A forgotten `return` is told as such, and not as what an observer makes of it."""

    class Counter:
        @hookimpl(wrapper=True)
        def decode_step(self) -> Any:
            commit = yield
            assert len(commit.rows) == 0
            return commit

    hooks = RunHooks(plugin_with(decode_step=lambda: result), RECORD, observers=[Counter()])
    with pytest.raises(PluginError, match="nonsense from hook decode_step"):
        CALLS["decode_step"](hooks)


def test_observers_may_not_decide() -> None:
    with pytest.raises(PluginError, match="observers may only wrap"):
        RunHooks(plugin_with(begin=lambda: 1), RECORD, observers=[plugin_with(begin=lambda: 2)])
