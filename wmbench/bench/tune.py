"""Search one setting of a scheme until its texts cost so much quality, or are found so often, as asked for.

Every point is an ordinary run with the same prompts, seed and null texts, beside a clean control that is decoded
alike: points are resumed and shared with other commands. What is measured is assumed to rise or to fall with the
setting; on few samples it is noisy, so the interval of every point is reported with it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from wmbench.bench.build import Builder
from wmbench.bench.measure import FPR_TARGETS, target_name
from wmbench.bench.pipeline import draw_nulls, execute, prepare_all
from wmbench.bench.plan import RunPlan, resolve_runs
from wmbench.bench.resolved import slug, spec_hash
from wmbench.bench.stages.quality import judge_of
from wmbench.bench.sweep import control_beside
from wmbench.config import ALL, Choice, RunConfig
from wmbench.disk import make_folder, pretty_json, write_atomic
from wmbench.errors import ConfigError, UnknownNameError
from wmbench.host import Host
from wmbench.settings import Settings

Match = Literal["quality", "tpr"]
_INNER: Final = 0.1
"""An interpolated value keeps this share of the bracket away from its ends, so that a bracket always shrinks."""
_GIVE_RANGE: Final = "give the range: --range LOW HIGH"
_NOT_MEASURED: Final = "the {} of a run cannot be measured"
_NAME_JUDGE: Final = "name a judge of this language, --judge hf:..., or use --match tpr"


@dataclass(frozen=True, slots=True)
class Goal:
    """What to match."""

    match: Match
    target: float
    tolerance: float
    fpr: float = 0.01
    """False-positive rate of `tpr`."""

    def __post_init__(self) -> None:
        if self.match == "tpr" and self.fpr not in FPR_TARGETS:
            known = ", ".join(f"{target:g}" for target in FPR_TARGETS)
            raise ConfigError(f"no rate is measured at an FPR of {self.fpr:g}", why=f"known: {known}")
        if self.match == "tpr" and not 0 <= self.target <= 1:
            raise ConfigError(f"a TPR of {self.target:g} cannot be reached", hint="a rate lies in 0 to 1: 97% is 0.97")
        if not (math.isfinite(self.target) and 0 <= self.tolerance < math.inf):
            raise ConfigError(
                f"target {self.target:g}, tolerance {self.tolerance:g}: no value could ever be near enough",
                hint="give a finite target and a tolerance of at least 0",
            )

    def interval(self, metrics: Mapping[str, Any]) -> dict[str, Any]:
        """The measured value with its interval."""
        found = quality_of(metrics) if self.match == "quality" else tpr_of(metrics, self.fpr)
        if found is None:
            why = (metrics.get("quality") or {}).get("why") if self.match == "quality" else None
            raise ConfigError(
                _NOT_MEASURED.format(self.match),
                why=why or "no text was kept, or the level is out of reach of so few null texts",
                hint=_NAME_JUDGE if self.match == "quality" else "use more --calibration-texts",
            )
        return found

    @property
    def unit(self) -> str:
        return "delta log-perplexity" if self.match == "quality" else f"TPR at {self.fpr:.1%} FPR"


def quality_of(metrics: Mapping[str, Any]) -> dict[str, Any] | None:
    """Mean log-perplexity of the marked texts minus that of the clean ones (nats per token), if it was measured."""
    found: dict[str, Any] | None = (metrics.get("quality") or {}).get("delta_log_perplexity")
    return found


def tpr_of(metrics: Mapping[str, Any], fpr: float) -> dict[str, Any] | None:
    """Share of unattacked texts found, by the paper's rule; None if no threshold can be placed."""
    cell = metrics["cells"][0]
    found: dict[str, Any] | None = cell["tpr"][target_name(fpr)]["threshold"] if cell["n"] else None
    return found


# --- the search ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """Values between low and high, the most promising next; `measure` says what a value gives."""

    low: float
    high: float
    target: float
    tolerance: float
    evaluations: int
    whole: bool = False
    """Only whole numbers."""
    path: dict[float, float] = field(default_factory=dict)
    """What every value has given, in the order of the search."""

    def run(self, measure: Callable[[float], float]) -> float:
        """The value that comes nearest to the target."""
        for value in (self.low, self.high):
            if not self.matched and len(self.path) < self.evaluations:
                self.path[value] = measure(value)
        while not self.matched and len(self.path) < self.evaluations and (following := self._next()) is not None:
            self.path[following] = measure(following)
        return self.best

    @property
    def best(self) -> float:
        return min(self.path, key=lambda value: abs(self.path[value] - self.target))

    @property
    def matched(self) -> bool:
        return any(abs(given - self.target) <= self.tolerance for given in self.path.values())

    def _next(self) -> float | None:
        """Where a line through the bracket meets the target; None if there is no bracket, or nothing left inside."""
        rising = self.path[self.high] >= self.path[self.low]
        is_below = {value: (given < self.target) == rising for value, given in self.path.items()}
        left = max((value for value, below in is_below.items() if below), default=None)
        right = min((value for value, below in is_below.items() if not below), default=None)
        if left is None or right is None or left >= right:
            return None  # out of reach; or noise has turned the order round, and the search has come to its end
        rise = self.path[right] - self.path[left]
        share = (self.target - self.path[left]) / rise if rise else 0.5
        value = left + (right - left) * min(max(share, _INNER), 1 - _INNER)
        # Four digits, so that the value can be typed again: it then names the same run.
        value = float(min(max(round(value), left + 1), right - 1)) if self.whole else float(f"{value:.4g}")
        return value if left < value < right else None


# --- runs ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tuning:
    """One scheme, one setting, one goal."""

    config: RunConfig
    host: Host
    parameter: str
    goal: Goal

    def __post_init__(self) -> None:
        config = self.config
        schemes = [scheme.name for scheme in config.schemes]
        if len(schemes) != 1 or ALL in schemes or len(config.datasets) > 1 or len(config.backbones) > 1:
            raise ConfigError(
                "one scheme is tuned on one backbone and one dataset",
                hint="name one --scheme, and at most one --backbone and --dataset",
            )

    def configured(self) -> float:
        """The setting's own value."""
        settings = self._plan(self.config).scheme.settings
        fields = type(settings).model_fields if settings is not None else {}
        numbers = [name for name in fields if _is_number(getattr(settings, name))]
        scheme = self.config.schemes[0].name
        if not numbers:
            raise ConfigError(f"scheme {scheme!r} has no setting that is a number: there is nothing to tune")
        if self.parameter not in numbers:
            raise UnknownNameError(
                f"number among the settings of {scheme}", self.parameter, numbers, hint="name it with --parameter"
            )
        return float(getattr(settings, self.parameter))

    @property
    def whole(self) -> bool:
        return isinstance(getattr(self._plan(self.config).scheme.settings, self.parameter), int)

    def option(self, value: float) -> str:
        """How to ask for this value in another command."""
        return f"-S {self.config.schemes[0].name}.{self.parameter}={value:g}"

    def borders(self) -> tuple[float, float]:
        """A quarter and four times of the setting's own value."""
        value = self.configured()
        if value <= 0:
            raise ConfigError(f"{self.parameter} is {value:g}: where to look?", hint=_GIVE_RANGE)
        low, high = value / 4, value * 4
        if self.whole:
            low, high = float(max(1, round(low))), float(round(high))
        try:
            self.require(low, high)
        except ConfigError as error:
            error.hint = _GIVE_RANGE
            raise
        return low, high

    def require(self, *values: float) -> None:
        """Refuse values that the setting does not permit, before any of them is measured."""
        for value in values:
            if not math.isfinite(value):  # it could not be written down
                raise ConfigError(f"{self.parameter} is {value:g}: not a number to search at", hint=_GIVE_RANGE)
            self._plan(self._at(value))

    def measure(self, value: float, builder: Builder, **options: Any) -> Settings:
        """A run at this value: the goal's figure, and the other one where it is there."""
        marked = self._plan(self._at(value))
        clean, run = prepare_all([control_beside(marked, self.host), marked], builder, **options)
        if self.goal.match == "quality" and isinstance(why := judge_of(run), str):
            raise ConfigError(_NOT_MEASURED.format("quality"), why=why, hint=_NAME_JUDGE)
        draw_nulls([run])
        cleaned, outcome = execute(clean), execute(run)
        if outcome.metrics is None:
            raise ConfigError(f"{marked.scheme.label} has no detector, so it cannot be tuned")
        metrics = json.loads(outcome.metrics.read_bytes())
        return {
            "at": value,
            "value": self.goal.interval(metrics)["estimate"],
            "quality": quality_of(metrics),
            "tpr": tpr_of(metrics, self.goal.fpr),
            "kept": metrics["samples"]["kept"],
            "failed": max(outcome.failure_rate, cleaned.failure_rate),
            "folder": outcome.folder,
        }

    def _at(self, value: float) -> RunConfig:
        scheme = self.config.schemes[0]
        number = int(value) if self.whole else value
        chosen = Choice(name=scheme.name, params={**scheme.params, self.parameter: number})
        return self.config.model_copy(update={"schemes": [chosen]})

    def _plan(self, config: RunConfig) -> RunPlan:
        return resolve_runs(config, self.host)[0]

    def write(self, document: Settings) -> Path:
        """The path of the search, beside the runs; named by what was asked for."""
        plan = self._plan(self.config)
        asked = {"goal": [self.goal.match, self.goal.target, self.goal.fpr], "plan": plan.describe()}
        name = slug(f"{plan.scheme.label}-{self.parameter}-{self.goal.match}")
        path = self.config.output / "tunings" / f"{name}_{spec_hash(asked)}.json"
        make_folder(path.parent)
        write_atomic(path, pretty_json({**document, "asked": asked}))
        return path


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
