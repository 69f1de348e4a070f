"""The run-scoped plugin manager: exactly one scheme (or attack), plus observers that wrap its hooks.

Foreign code is called here and nowhere else, so every error names the plugin, its version and the hook, and every
result is checked for its shape before the host relies on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pluggy

from wmbench.errors import ConfigError, PluginError, WmbenchError
from wmbench.hookspecs import PROJECT, RUN_HOOKS, RunSpecs, hookimpl
from wmbench.types import (
    AttackContext,
    Attacked,
    AttackInput,
    Commit,
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
        self.manager = pluggy.PluginManager(PROJECT)
        self.manager.add_hookspecs(RunSpecs)
        if codec is not None:
            self.manager.register(TokenFeatures(codec), "default features")
        self.manager.register(EmpiricalDetection(), "default detection")
        self._register(plugin, record.name)
        self.implemented = frozenset(c.name for c in self.manager.get_hookcallers(plugin) or ())
        if not self.implemented:
            raise PluginError(f"plugin {record} implements no run hook", hint=f"known hooks: {', '.join(RUN_HOOKS)}")
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
            raise
        except (KeyboardInterrupt, MemoryError):
            raise
        except Exception as error:
            raise PluginError(
                f"plugin {self.record} failed in hook {hook}",
                why=f"{type(error).__name__}: {error}",
                hint="report it to the plugin's author; --debug shows the traceback",
            ) from error

    def _refuse(self, hook: str, why: str) -> PluginError:
        return PluginError(f"plugin {self.record} returned nonsense from hook {hook}", why=why)

    def require(self, hook: str, purpose: str) -> None:
        if hook not in self.implemented:
            raise ConfigError(f"{self.record.name} has no hook {hook}, so it cannot {purpose}")

    # --- the hooks ---------------------------------------------------------------------------------------------

    def begin(self, sample: Sample) -> Any:
        return self._call("begin", sample=sample)

    def decode_step(self, step: Step) -> Commit:
        step.author = f"plugin {self.record}"
        commit = self._call("decode_step", step=step)
        if not isinstance(commit, Commit):
            raise self._refuse("decode_step", f"expected a Commit, got {type(commit).__name__}")
        filled, given_back = (commit.rows, commit.columns, commit.tokens), (commit.remask_rows, commit.remask_columns)
        for arrays in (filled, given_back):
            if any(not isinstance(a, np.ndarray) or a.ndim != 1 or a.dtype.kind != "i" for a in arrays):
                raise self._refuse("decode_step", "a Commit holds flat arrays of integers")
            if len({len(a) for a in arrays}) > 1:
                raise self._refuse("decode_step", "rows, columns and tokens of a Commit differ in length")
        return commit

    def features(self, texts: Sequence[str], context: TextContext) -> Features:
        features = self._call("features", texts=texts, context=context)
        if not isinstance(features, Features) or len(features) != len(texts) or len(features.offsets) != len(texts) + 1:
            raise self._refuse("features", f"expected Features of {len(texts)} texts")
        return features

    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        self.require("score", "score texts")
        views = self._call("score", features=features, key=key, context=context)
        expected = (len(features), len(getattr(views, "names", ())))
        if not isinstance(views, Views) or np.shape(views.scores) != expected or not views.names:
            raise self._refuse("score", f"expected Views with scores of shape {expected}")
        if not np.isfinite(views.scores).all():
            raise self._refuse("score", "scores must be finite")
        return views

    def detect(self, views: Views, calibration: Calibration | None, context: TextContext) -> Sequence[Verdict]:
        verdicts = self._call("detect", views=views, calibration=calibration, context=context)
        if len(verdicts) != len(views.scores) or not all(isinstance(v, Verdict) for v in verdicts):
            raise self._refuse("detect", f"expected {len(views.scores)} Verdicts")
        if any(not 0 < v.p_value <= 1 for v in verdicts):
            raise self._refuse("detect", "a p-value lies outside (0, 1]")
        return verdicts

    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> Sequence[Attacked]:
        self.require("attack", "attack texts")
        results = self._call("attack", texts=texts, context=context)
        if len(results) != len(texts) or not all(isinstance(r, Attacked) for r in results):
            raise self._refuse("attack", f"expected {len(texts)} Attacked")
        if any((r.text is None) == (r.error is None) for r in results):
            raise self._refuse("attack", "every result has either a text or an error")
        return results
