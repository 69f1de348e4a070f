"""Stage 6: raw scores of every text set under the run's key: `scores/<set>.npz`, one column per view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wmbench.bench.derived import digest
from wmbench.bench.nulls import NullSpec
from wmbench.bench.split import Side
from wmbench.bench.stages.base import Run, Tally
from wmbench.bench.stages.features import features_of
from wmbench.bench.textset import TextSet, own_sets
from wmbench.detection.archive import read_archive, write_archive
from wmbench.types import Features, Views


@dataclass(frozen=True)
class ScoredSet:
    """A text set and where its features are. Nothing is loaded until it is asked for."""

    name: str
    source: str
    """Digest of the texts, or of what determines them."""
    ids: Callable[[], tuple[str, ...]]
    features: Callable[[], Features]

    @property
    def file(self) -> str:
        return f"scores/{self.name}.npz"


class ScoreStage:
    name = "score"

    def is_complete(self, run: Run) -> bool:
        return run.detector is None or not self._missing(run)

    def work(self, run: Run) -> None:
        if run.detector is None:
            return
        for scored in self._missing(run):
            views = run.detector.score(scored.features(), run.key)
            arrays = {"scores": views.scores, "ids": np.array(scored.ids(), dtype=np.str_)}
            metadata = {"kind": "scores", "set": scored.name, "views": views.names, "key_id": run.identity["key_id"]}
            write_archive(run.store.derived.place(scored.file), arrays, metadata)
            run.store.derived.stamp(scored.file, score_inputs(run, scored))

    def tallies(self, run: Run) -> dict[str, Tally]:
        return {}

    def _missing(self, run: Run) -> list[ScoredSet]:
        current = run.store.derived.is_current
        return [scored for scored in scored_sets(run) if not current(scored.file, score_inputs(run, scored))]


def score_inputs(run: Run, scored: ScoredSet) -> str:
    assert run.detector is not None
    return digest([scored.source, run.detector.features_identity, run.detector.identity, run.identity["key_id"]])


def scored_sets(run: Run) -> list[ScoredSet]:
    """The run's own texts, then calibration and held-out null texts; of further null sets the held-out ones."""
    sets = [_own(run, texts) for texts in own_sets(run)]
    for number, spec in enumerate(run.nulls):
        sets += [_null(run, spec, "calibration")] if number == 0 else []
        sets.append(_null(run, spec, "heldout"))
    return sets


def read_scores(run: Run, name: str) -> tuple[Views, list[str]]:
    """Scores and ids of a set."""
    arrays, metadata = read_archive(run.store.folder / "scores" / f"{name}.npz")
    return Views(tuple(metadata["views"]), arrays["scores"]), arrays["ids"].tolist()


def null_name(spec: NullSpec, side: Side) -> str:
    return f"{side}-{spec.label}"


def _own(run: Run, texts: TextSet) -> ScoredSet:
    return ScoredSet(texts.name, texts.digest, lambda: texts.ids, lambda: features_of(run, texts.name))


def _null(run: Run, spec: NullSpec, side: Side) -> ScoredSet:
    def load() -> Features:
        assert run.detector is not None
        return run.library.features(spec, side, run.detector)

    return ScoredSet(
        null_name(spec, side), digest([spec.identity, side]), lambda: run.library.texts(spec)[side].ids, load
    )
