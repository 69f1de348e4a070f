"""wmbench from Python: what `wmbench generate`, `wmbench detect` and `wmbench run` do, without the command line.

    import wmbench

    texts = [g.text for g in wmbench.generate(["How do tides work?"], scheme="denmark", key="file:my.key")]
    results = wmbench.run(["none", "denmark"], samples=8, key="file:my.key", output="runs")
    verdicts = wmbench.detect(texts, results[1].folder / "calibration.npz", key="file:my.key")

Settings have the names and the meaning they have in a configuration file (docs/cli.md). Keys are named by their source,
`file:PATH` or `env:VARIABLE`, never given themselves. With `workers` above 1 a script needs the usual
`if __name__ == "__main__":`, as its module is imported by every worker.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmbench.errors import ConfigError, WmbenchError
from wmbench.runtime.threads import wait_without_spinning

if TYPE_CHECKING:
    from wmbench.bench.build import Builder
    from wmbench.bench.plan import RunPlan
    from wmbench.detection import Calibration
    from wmbench.types import Generation, Verdict

wait_without_spinning()  # of use if torch has not been imported yet

Chosen = str | Mapping[str, Any]
"""A name, or {"name": ..., "params": {...}}."""


@dataclass(frozen=True)
class RunResult:
    """How one run of a comparison ended."""

    folder: Path
    scheme: str
    backbone: str
    dataset: str
    status: str
    """success, partial (some attacks failed) or error."""
    metrics: Mapping[str, Any] | None
    """metrics.json (docs/results.md); None for a scheme without a detector."""
    error: WmbenchError | None = None


def generate(
    prompts: str | Sequence[str], scheme: Chosen = "none", *, plugins: Sequence[str | Path] = (), **settings: Any
) -> list[Generation]:
    """Answer prompts under a scheme, in order. Settings: backbone, decoding, key, seed, batch_size."""
    from wmbench.bench.prompts import require_room
    from wmbench.bench.stages.decode import answered
    from wmbench.types import Sample

    texts = _strings(prompts, "prompt")
    plan, builder = _one({"schemes": [scheme], **settings}, plugins)
    builder.require_usable_key(plan)
    samples = [Sample(f"prompt-{i:04d}", text, "", i) for i, text in enumerate(texts)]
    require_room(samples, builder.backbone(plan.backbone), plan.decoding)
    found = {g.sample.id: g for g in answered(plan, builder, builder.key(plan), samples)}
    return [found[sample.id] for sample in samples]


def detect(
    texts: str | Sequence[str],
    calibration: str | Path | Calibration | None = None,
    *,
    scheme: Chosen | None = None,
    evidence: bool = False,
    plugins: Sequence[str | Path] = (),
    **settings: Any,
) -> list[Verdict]:
    """Look for a watermark: one verdict per text. Scheme, settings and backbone are those of the calibration unless
    they are given; a scheme with an exact law needs no calibration. Settings: backbone, key, alpha. Nothing warns of a
    text that is shorter or longer than the calibration's null texts, as the command does."""
    from wmbench.bench.calibrating import load_calibration, recorded_settings, require_fitting
    from wmbench.bench.detector import Detector

    given = _strings(texts, "text")
    where = str(calibration) if isinstance(calibration, str | Path) else "the given calibration"
    judged_by = load_calibration(calibration) if isinstance(calibration, str | Path) else calibration
    recorded = recorded_settings(judged_by, scheme)
    if "schemes" not in recorded:
        raise ConfigError("which scheme is to be detected?", hint="give `scheme`, or a calibration that names one")
    said = _plain(settings)
    if "backbones" in said:  # another way to say `backbone`; together they are refused
        recorded.pop("backbone", None)
    plan, builder = _one({**recorded, **said}, plugins)
    detector = Detector(plan, builder, builder.codec(plan.backbone))
    detector.hooks.require("score", "detect anything")
    key = builder.existing_key(plan)
    if judged_by is not None:
        require_fitting(judged_by, detector, key.id if key else None, where)
    verdicts: list[Verdict] = []
    for features in detector.features(given):
        views = detector.score(features, key, evidence=evidence)
        verdicts += detector.detect(views, judged_by, plan.config.alpha)
    return verdicts


def run(
    schemes: Chosen | Sequence[Chosen],
    *,
    preset: str = "quick",
    file: str | Path | None = None,
    plugins: Sequence[str | Path] = (),
    note: Callable[[str], None] = lambda _: None,
    **settings: Any,
) -> list[RunResult]:
    """Generate, attack, calibrate, detect and measure; resumes what is missing. One result per backbone, scheme and
    dataset. A run that fails has its error in the result; when it is the only one, the error is raised."""
    from wmbench.bench.pipeline import execute_all, prepare_all
    from wmbench.bench.plan import resolve_runs
    from wmbench.bench.workers import worker_pool
    from wmbench.config import load_config

    chosen = [schemes] if isinstance(schemes, str | Mapping) else list(schemes)
    config = load_config(preset, file, {"schemes": chosen, **_plain(settings)})
    builder = _builder(plugins, note)
    plans = resolve_runs(config, builder.host)
    with worker_pool(config.workers, [str(path) for path in plugins]) as pool:
        runs = prepare_all(plans, builder, note=note, executor=pool)
        ends = dict(execute_all(runs))
    results = []
    for prepared in runs:
        end, plan = ends[prepared], prepared.plan
        names = (prepared.store.folder, plan.scheme.label, plan.backbone.label, plan.dataset.label)
        if isinstance(end, WmbenchError):
            results.append(RunResult(*names, "error", None, end))
        else:
            metrics = json.loads(end.metrics.read_bytes()) if end.metrics is not None else None
            results.append(RunResult(*names, end.status, metrics))
    return results


# --- what they share -------------------------------------------------------------------------------------------


def _one(settings: Mapping[str, Any], plugins: Sequence[str | Path]) -> tuple[RunPlan, Builder]:
    """The plan of a single scheme, without attacks."""
    from wmbench.bench.plan import resolve_one
    from wmbench.config import load_config

    builder = _builder(plugins)
    return resolve_one(load_config(options={"attacks": [], **_plain(settings)}), builder.host), builder


def _builder(plugins: Sequence[str | Path], note: Callable[[str], None] = lambda _: None) -> Builder:
    builder = _kept_builder(tuple(str(path) for path in plugins))
    builder.note = note
    return builder


@lru_cache(maxsize=4)
def _kept_builder(plugins: tuple[str, ...]) -> Builder:
    """Models stay loaded between calls."""
    from wmbench.bench.build import Builder
    from wmbench.host import Host

    return Builder(Host.discover(plugins))


def _strings(given: str | Sequence[str], what: str) -> list[str]:
    """One or several; anything else would be taken for a plugin's mistake."""
    found = [given] if isinstance(given, str) else list(given)
    for number, one in enumerate(found):
        if not isinstance(one, str):
            raise ConfigError(f"{what} {number} is not a string", why=f"it is of type {type(one).__name__}")
    return found


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """As they would stand in a file: paths as text, mappings as dictionaries."""
    return {
        name: str(value) if isinstance(value, Path) else dict(value) if isinstance(value, Mapping) else value
        for name, value in settings.items()
        if value is not None
    }
