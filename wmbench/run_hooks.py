"""The run-scoped plugin manager: exactly one scheme (or attack), plus observers that wrap its hooks.

Foreign code is called here and nowhere else, so every error names the plugin, its version and the hook, and every
result is checked for its shape before the host relies on it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pluggy

from wmbench.errors import ConfigError, PluginError, WmbenchError
from wmbench.foreign import line_in, told
from wmbench.hookspecs import PROJECT, RUN_HOOKS, RunSpecs, hookimpl
from wmbench.types import (
    AttackContext,
    Attacked,
    AttackInput,
    Commit,
    Evidence,
    Features,
    Sample,
    TextCodec,
    TextContext,
    Verdict,
    Views,
)

if TYPE_CHECKING:
    from wmbench.detection.calibration import Calibration
    from wmbench.host import PluginRecord
    from wmbench.keys import SecretKey
    from wmbench.runtime.step import Step


class TokenFeatures:
    """The host's default features: token ids of the retokenised text."""

    def __init__(self, codec: TextCodec) -> None:
        self._codec = codec

    @hookimpl(trylast=True)
    def features(self, texts: Sequence[str]) -> Features:
        ids = [np.asarray(tokens, dtype=np.int32) for tokens in self._codec.encode_batch(texts)]
        return Features.pack(ids, [len(tokens) for tokens in ids])


class EmpiricalDetection:
    """The host's default verdict: add-one empirical p per view, Bonferroni over views."""

    @hookimpl(trylast=True)
    def detect(self, views: Views, calibration: Calibration | None, context: TextContext) -> list[Verdict]:
        if calibration is None:
            raise ConfigError("an empirical p-value needs a calibration", hint="run `wmbench calibrate` first")
        from wmbench.detection.verdicts import empirical_verdicts

        return empirical_verdicts(views, calibration, context)


class CommitCheck:
    """The innermost wrapper: observers are handed nothing but well-formed commits."""

    def __init__(self, record: PluginRecord) -> None:
        self._record = record

    @hookimpl(wrapper=True)
    def decode_step(self) -> Generator[None, Commit, Commit]:
        commit = yield
        if why := _malformed(commit):
            raise _nonsense(self._record, "decode_step", why)
        return commit


class RunHooks:
    """Calls the run hooks of one scheme or attack."""

    def __init__(
        self,
        plugin: object,
        record: PluginRecord,
        *,
        codec: TextCodec | None = None,
        observers: Iterable[object] = (),
    ) -> None:
        self.record = record
        self._module: str = getattr(plugin, "__module__", "") or getattr(plugin, "__name__", "")  # it may be a module
        self.manager = pluggy.PluginManager(PROJECT)
        self.manager.add_hookspecs(RunSpecs)
        if codec is not None:
            self.manager.register(TokenFeatures(codec), "default features")
        self.manager.register(EmpiricalDetection(), "default detection")
        self._register(plugin, record.name)
        self.implemented = frozenset(c.name for c in self.manager.get_hookcallers(plugin) or ())
        self._unmarked = {name for name in RUN_HOOKS if name not in self.implemented and hasattr(plugin, name)}
        if not self.implemented:
            hint = _mark(self._unmarked) if self._unmarked else f"known hooks: {', '.join(RUN_HOOKS)}"
            raise PluginError(f"plugin {record} implements no run hook", hint=hint)
        self.manager.register(CommitCheck(record), "check of commits")
        for index, observer in enumerate(observers):
            self._register(observer, f"observer {index}: {type(observer).__name__}")
            self._require_wrappers(observer)

    def _register(self, plugin: object, name: str) -> None:
        try:
            self.manager.register(plugin, name)
            self.manager.check_pending()
        except pluggy.PluginValidationError as error:
            raise PluginError(f"plugin {name} does not fit the hooks", why=str(error)) from error

    def _require_wrappers(self, observer: object) -> None:
        for caller in self.manager.get_hookcallers(observer) or ():
            for implementation in caller.get_hookimpls():
                if implementation.plugin is observer and not implementation.wrapper:
                    raise PluginError(
                        f"observer {type(observer).__name__} implements {caller.name} itself",
                        why="a run has exactly one scheme; observers may only wrap its hooks",
                        hint="use @hookimpl(wrapper=True)",
                    )

    def _call(self, hook: str, **arguments: Any) -> Any:
        try:
            return getattr(self.manager.hook, hook)(**arguments)
        except WmbenchError as error:
            error.where = error.where or f"plugin {self.record}, hook {hook}"
            line = line_in(error, self._module) if isinstance(error, PluginError) else ""
            if line and line not in error.where:
                error.where += f" ({line})"
            raise
        except (KeyboardInterrupt, MemoryError):
            raise
        except (Exception, SystemExit) as error:  # sys.exit() in a hook would end the run without a word
            if hook == "decode_step" and _is_out_of_memory(error):
                raise  # no fault of the scheme: the loop says what helps
            raise PluginError(
                f"plugin {self.record} failed in hook {hook}",
                why=told(error, self._module),
                hint=self.record.remedy,
            ) from error

    def _refuse(self, hook: str, why: str) -> PluginError:
        return _nonsense(self.record, hook, why)

    def require(self, hook: str, purpose: str) -> None:
        if hook not in self.implemented:
            hint = _mark([hook]) if hook in self._unmarked else "choose another scheme"
            raise ConfigError(f"{self.record.name} has no hook {hook}, so it cannot {purpose}", hint=hint)

    # --- the hooks ---------------------------------------------------------------------------------------------

    def begin(self, sample: Sample) -> Any:
        return self._call("begin", sample=sample)

    def decode_step(self, step: Step) -> Commit:
        step.author = f"plugin {self.record}"
        commit: Commit = self._call("decode_step", step=step)
        return commit

    def features(self, texts: Sequence[str], context: TextContext) -> Features:
        features = self._call("features", texts=texts, context=context)
        if not isinstance(features, Features):
            raise self._refuse("features", f"expected Features, got {type(features).__name__}")
        for array in (features.offsets, features.lengths):
            if not _is_flat_integers(array):
                raise self._refuse("features", "offsets and lengths are flat arrays of integers")
        if len(features) != len(texts) or len(features.offsets) != len(texts) + 1:
            got = f"{len(features)} lengths and {len(features.offsets)} offsets"
            raise self._refuse("features", f"expected Features of {len(texts)} texts, got {got}")
        if not isinstance(features.values, np.ndarray) or features.values.ndim == 0:
            raise self._refuse("features", "values is an array with one row per feature")
        ends = features.offsets[0], features.offsets[-1]
        if ends != (0, len(features.values)) or (np.diff(features.offsets) < 0).any():
            raise self._refuse("features", f"offsets must ascend from 0 to the {len(features.values)} rows of values")
        return features

    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        self.require("score", "score texts")
        views = self._call("score", features=features, key=key, context=context)
        if not isinstance(views, Views) or not _is_list(views.names, str) or not views.names:
            raise self._refuse("score", f"expected Views with the names of one or more views, got {_shown(views)}")
        expected = (len(features), len(views.names))
        if not isinstance(views.scores, np.ndarray) or views.scores.shape != expected:
            raise self._refuse("score", f"expected Views with scores of shape {expected}, got {_shown(views.scores)}")
        if views.scores.dtype.kind not in "fiu":
            raise self._refuse("score", f"scores must be numbers, not {views.scores.dtype}")
        if not np.isfinite(views.scores).all():
            raise self._refuse("score", "scores must be finite")
        return views

    def detect(self, views: Views, calibration: Calibration | None, context: TextContext) -> Sequence[Verdict]:
        verdicts = self._call("detect", views=views, calibration=calibration, context=context)
        if not _is_list(verdicts, Verdict) or len(verdicts) != len(views.scores):
            raise self._refuse("detect", f"expected a list of {len(views.scores)} Verdicts, got {_shown(verdicts)}")
        if any(not isinstance(v.p_value, float | int) or not 0 < v.p_value <= 1 for v in verdicts):
            raise self._refuse("detect", "a p-value is not a number in (0, 1]")
        for v in verdicts:
            if not _is_list(v.evidence, Evidence):
                raise self._refuse("detect", f"evidence is a list of Evidence, got {_shown(v.evidence)}")
            spans = [(span.start, span.end, span.weight, span.label) for span in v.evidence]
            self._require_json("detect", "a verdict", v.details, v.score, v.detected, v.view, spans)
        return verdicts

    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> Sequence[Attacked]:
        self.require("attack", "attack texts")
        results = self._call("attack", texts=texts, context=context)
        if not _is_list(results, Attacked) or len(results) != len(texts):
            raise self._refuse("attack", f"expected a list of {len(texts)} Attacked, got {_shown(results)}")
        if any((r.text is None) == (r.error is None) for r in results):
            raise self._refuse("attack", "every result has either a text or an error")
        if any(not isinstance(r.error if r.text is None else r.text, str) for r in results):
            raise self._refuse("attack", "text and error are strings")
        for r in results:
            self._require_json("attack", "a result", r.details)
        return results

    def _require_json(self, hook: str, what: str, details: object, *values: object) -> None:
        """It will be written to a file, where nobody knows any more whose it was."""
        try:
            json.dumps([dict(details) if isinstance(details, Mapping) else details, *values], allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise self._refuse(hook, f"{what} cannot be written as JSON: {error}") from error
        if not isinstance(details, Mapping):
            raise self._refuse(hook, f"details of {what} are a {type(details).__name__}, expected a dictionary")


def _is_out_of_memory(error: BaseException) -> bool:
    """Of torch, which is not imported for it: whoever raised it has done so."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(error, torch.OutOfMemoryError)


def _mark(methods: Iterable[str]) -> str:
    return f"put @hookimpl above the method {' and '.join(sorted(methods))}: without it wmbench does not see it"


def _nonsense(record: PluginRecord, hook: str, why: str) -> PluginError:
    return PluginError(f"plugin {record} returned nonsense from hook {hook}", why=why)


def _malformed(commit: object) -> str | None:
    if not isinstance(commit, Commit):
        return f"expected a Commit, got {type(commit).__name__}"
    filled, given_back = (commit.rows, commit.columns, commit.tokens), (commit.remask_rows, commit.remask_columns)
    for arrays in (filled, given_back):
        if any(not isinstance(a, np.ndarray) or a.ndim != 1 or a.dtype.kind != "i" for a in arrays):
            return "a Commit holds flat arrays of integers"
        if len({len(a) for a in arrays}) > 1:
            return "rows, columns and tokens of a Commit differ in length"
    return None


def _is_list(value: object, kind: type) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(item, kind) for item in value)


def _shown(value: object) -> str:
    """What came instead: its type, with the shape or the length."""
    if isinstance(value, np.ndarray):
        return f"shape {value.shape}"
    kind = type(value).__name__
    if not isinstance(value, list | tuple):
        return kind
    return f"a {kind} of {len(value)} {'/'.join(sorted({type(item).__name__ for item in value}))}".rstrip()


def _is_flat_integers(array: object) -> bool:
    return isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in "iu"
