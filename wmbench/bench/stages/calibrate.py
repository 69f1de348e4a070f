"""The calibration, an object of its own: `wmbench detect` needs it and nothing else of the run."""

from __future__ import annotations

from wmbench.bench.calibrating import calibration_metadata
from wmbench.bench.derived import digest
from wmbench.bench.stages.base import Run, Tally
from wmbench.bench.stages.score import calibrating_set, read_scores, score_inputs
from wmbench.detection import Calibration

FILE = "calibration.npz"


class CalibrateStage:
    name = "calibrate"

    def is_complete(self, run: Run) -> bool:
        return run.detector is None or run.store.derived.is_current(FILE, self._inputs(run))

    def work(self, run: Run) -> None:
        if run.detector is None:
            return
        views, _ = read_scores(run, calibrating_set(run).name)
        metadata = calibration_metadata(run.detector, run.nulls[0], run.identity["key_id"])
        Calibration(views.scores, views.names, metadata).save(run.store.derived.place(FILE))
        run.store.derived.stamp(FILE, self._inputs(run))

    def tallies(self, run: Run) -> dict[str, Tally]:
        return {}

    def _inputs(self, run: Run) -> str:
        """Also what the scores were computed with: a setting may change verdicts and no score."""
        scored = calibrating_set(run)
        return digest([run.store.derived.content_digest(scored.file), score_inputs(run, scored)])


def read_calibration(run: Run) -> Calibration:
    return Calibration.load(run.store.folder / FILE)
