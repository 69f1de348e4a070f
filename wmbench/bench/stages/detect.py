"""A verdict for every text that did not calibrate: `verdicts/<set>.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from wmbench.bench.derived import digest
from wmbench.bench.jsonl import JsonlFile, Record, encode_line
from wmbench.bench.stages.base import Run, Tally
from wmbench.bench.stages.calibrate import FILE as CALIBRATION
from wmbench.bench.stages.calibrate import read_calibration
from wmbench.bench.stages.score import ScoredSet, read_scores, scored_sets
from wmbench.types import Verdict


class DetectStage:
    name = "detect"

    def is_complete(self, run: Run) -> bool:
        return run.detector is None or not self._missing(run)

    def work(self, run: Run) -> None:
        if run.detector is None:
            return
        calibration = read_calibration(run)
        for scored in self._missing(run):
            views, ids = read_scores(run, scored.name)
            verdicts = run.detector.detect(views, calibration, run.plan.config.alpha) if ids else []
            lines = [encode_line(verdict_record(i, verdict)) for i, verdict in zip(ids, verdicts, strict=True)]
            run.store.derived.write(verdict_file(scored.name), self._inputs(run, scored), b"".join(lines))

    def tallies(self, run: Run) -> dict[str, Tally]:
        return {}

    def _missing(self, run: Run) -> list[ScoredSet]:
        current = run.store.derived.is_current
        return [s for s in judged_sets(run) if not current(verdict_file(s.name), self._inputs(run, s))]

    def _inputs(self, run: Run, scored: ScoredSet) -> str:
        derived = run.store.derived
        return digest([derived.content_digest(scored.file), derived.content_digest(CALIBRATION), run.plan.config.alpha])


def judged_sets(run: Run) -> list[ScoredSet]:
    return [scored for scored in scored_sets(run) if scored.role != "calibration"]


def verdict_file(name: str) -> str:
    return f"verdicts/{name}.jsonl"


def read_verdicts(run: Run, name: str) -> list[Record]:
    return JsonlFile(run.store.folder / verdict_file(name)).read()


def verdict_record(identity: str, verdict: Verdict) -> Record:
    return {
        "id": identity,
        "p": verdict.p_value,
        "score": verdict.score,
        "detected": verdict.detected,
        "view": verdict.view,
        "details": plain(verdict.details),
    }


def plain(details: Mapping[str, Any]) -> dict[str, Any]:
    """A scheme's details as JSON values; numpy's numbers become Python's, anything else its description."""
    found: dict[str, Any] = json.loads(json.dumps(dict(details), default=_as_json))
    return found


def _as_json(value: object) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else str(value)
