"""Key-free features of every text set, packed; those of null texts lie in the cache beside the runs."""

from __future__ import annotations

from wmbench.bench.derived import digest
from wmbench.bench.packed import packed_files, read_packed, write_packed
from wmbench.bench.stages.base import Run, Tally
from wmbench.bench.textset import TextSet, own_sets
from wmbench.types import Features

FOLDER = "features"


class FeaturesStage:
    name = "features"

    def is_complete(self, run: Run) -> bool:
        return run.detector is None or not self._missing(run)

    def work(self, run: Run) -> None:
        if run.detector is None:
            return
        derived = run.store.derived
        for texts in self._missing(run):
            folder = derived.place(f"{FOLDER}/{texts.name}").parent
            write_packed(folder, texts.name, run.detector.features(texts.texts))
            for file in packed_files(texts.name):
                derived.stamp(f"{FOLDER}/{file}", self._inputs(run, texts))

    def tallies(self, run: Run) -> dict[str, Tally]:
        return {}

    def _missing(self, run: Run) -> list[TextSet]:
        current = run.store.derived.is_current
        return [
            texts
            for texts in own_sets(run)
            if not all(current(f"{FOLDER}/{file}", self._inputs(run, texts)) for file in packed_files(texts.name))
        ]

    def _inputs(self, run: Run, texts: TextSet) -> str:
        assert run.detector is not None
        return digest([texts.digest, run.detector.features_identity])


def features_of(run: Run, name: str) -> Features:
    return read_packed(run.store.folder / FOLDER, name)
