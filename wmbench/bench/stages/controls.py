"""The wrong-key control. The same texts under keys that marked nothing: every one of them must be silent.

One key shifts all texts of a family alike, so the controls average over several keys (`keys`). Each wrong key is
calibrated for itself, from the packed features: no encoder call, no tokenisation. The lengths of the texts are kept
beside their scores, so that they can be compared with null texts of like length.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from wmbench.bench.derived import digest
from wmbench.bench.stages.base import Run, Tally
from wmbench.bench.stages.detect import judged_sets
from wmbench.bench.stages.score import ScoredSet, calibrating_set, score_inputs
from wmbench.detection import Calibration
from wmbench.detection.archive import Arrays, read_archive, write_archive
from wmbench.keys import SecretKey

FILE = "controls.npz"
_VERSION = 2
"""Of the file's form."""


class ControlsStage:
    name = "controls"

    def is_complete(self, run: Run) -> bool:
        return not wrong_keys(run) or run.store.derived.is_current(FILE, self._inputs(run))

    def work(self, run: Run) -> None:
        keys = wrong_keys(run)
        if run.detector is None or not keys:
            return
        rows: dict[str, list[npt.NDArray[np.float64]]] = {}
        calibrating, unattacked = calibrating_set(run), _unattacked(run)
        for key in keys:
            null_views = calibrating.score(key)
            calibration = Calibration(null_views.scores, null_views.names)
            for scored in unattacked:
                verdicts = run.detector.detect(scored.score(key), calibration, run.plan.config.alpha)
                rows.setdefault(f"{scored.name}.p", []).append(np.array([v.p_value for v in verdicts]))
                rows.setdefault(f"{scored.name}.score", []).append(np.array([v.score for v in verdicts]))
        arrays: Arrays = {name: np.stack(values) for name, values in rows.items()}
        arrays |= {f"{scored.name}.tokens": np.asarray(scored.tokens()) for scored in unattacked}
        write_archive(run.store.derived.place(FILE), arrays, {"kind": "controls", "key_ids": [key.id for key in keys]})
        run.store.derived.stamp(FILE, self._inputs(run))

    def tallies(self, run: Run) -> dict[str, Tally]:
        return {}

    def _inputs(self, run: Run) -> str:
        sources = [score_inputs(run, scored) for scored in [*_unattacked(run), calibrating_set(run)]]
        return digest([_VERSION, sources, [key.id for key in wrong_keys(run)], run.plan.config.alpha])


def wrong_keys(run: Run) -> list[SecretKey]:
    """Empty where the key is not secret: there is no other key then, and the control does not apply."""
    if run.key is None or run.detector is None:
        return []
    return [run.key.derive(f"wrong key {number}") for number in range(run.plan.config.keys)]


def read_controls(run: Run) -> Arrays:
    """`<set>.p` and `<set>.score`, one row per wrong key; `<set>.tokens`, the length of each text."""
    return read_archive(run.store.folder / FILE)[0]


def _unattacked(run: Run) -> list[ScoredSet]:
    return [scored for scored in judged_sets(run) if scored.attack is None]
