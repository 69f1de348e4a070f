"""Raw scores of every text set under the run's key: `scores/<set>.npz`, one column per view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from wmbench.bench.attack_plan import AttackChain
from wmbench.bench.derived import digest
from wmbench.bench.nulls import NullSpec
from wmbench.bench.split import Side
from wmbench.bench.stages.base import Run, Tally
from wmbench.bench.stages.features import features_of
from wmbench.bench.textset import CLEAN, TextSet, attacked_clean_name, attacked_name, own_sets
from wmbench.detection.archive import read_archive, write_archive
from wmbench.keys import SecretKey
from wmbench.types import IntArray, Views

Role = Literal["marked", "clean", "calibration", "heldout"]


@dataclass(frozen=True)
class ScoredSet:
    """A text set and how to score it. Nothing is loaded until it is asked for."""

    name: str
    source: str
    """Digest of the texts, or of what determines them."""
    ids: Callable[[], tuple[str, ...]]
    score: Callable[[SecretKey | None], Views]
    role: Role
    tokens: Callable[[], IntArray]
    """How many of each text the detector reads, after retokenisation."""
    attack: str | None = None
    """Label of the attack that the texts have gone through."""
    wanted: int = 0
    """Of null texts that are attacked: how many. The set has those that the attack did not fail on."""

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
            views = scored.score(run.key)
            arrays = {"scores": views.scores, "ids": np.array(scored.ids(), dtype=np.str_)}
            metadata = {"kind": "scores", "set": scored.name, "views": views.names, "key_id": run.identity["key_id"]}
            write_archive(run.store.derived.place(scored.file), arrays, metadata)
            run.store.derived.stamp(scored.file, score_inputs(run, scored))

    def tallies(self, run: Run) -> dict[str, Tally]:
        """Of attacked null texts; those of the run's own are the attacks' to tell."""
        if run.detector is None:
            return {}
        attacked = [scored for scored in scored_sets(run) if scored.wanted]
        return {scored.name: Tally(scored.wanted, scored.wanted, _failed(run, scored)) for scored in attacked}

    def _missing(self, run: Run) -> list[ScoredSet]:
        current, again = run.store.derived.is_current, run.plan.config.retry_failed
        return [
            scored
            for scored in scored_sets(run)
            if not current(scored.file, score_inputs(run, scored)) or (again and _failed(run, scored))
        ]


def _failed(run: Run, scored: ScoredSet) -> int:
    """Null texts that an attack failed on."""
    return scored.wanted - len(read_scores(run, scored.name)[1]) if scored.wanted else 0


def score_inputs(run: Run, scored: ScoredSet) -> str:
    assert run.detector is not None
    return digest([scored.source, run.detector.features_identity, run.detector.identity, run.identity["key_id"]])


def scored_sets(run: Run) -> list[ScoredSet]:
    """The run's own texts, then calibration and held-out null texts; of further null sets the held-out ones."""
    sets = [_own(run, texts) for texts in own_sets(run)]
    for number, spec in enumerate(run.nulls):
        sets += [_null(run, spec, "calibration")] if number == 0 else []
        sets.append(_null(run, spec, "heldout"))
        if run.plan.config.attacked_nulls:
            sets += [_attacked_null(run, spec, attack) for attack in run.plan.attacks]
    return sets


def calibrating_set(run: Run) -> ScoredSet:
    return _null(run, run.nulls[0], "calibration")


def read_scores(run: Run, name: str) -> tuple[Views, list[str]]:
    """Scores and ids of a set."""
    arrays, metadata = read_archive(run.store.folder / "scores" / f"{name}.npz")
    return Views(tuple(metadata["views"]), arrays["scores"]), arrays["ids"].tolist()


def null_name(spec: NullSpec, side: Side) -> str:
    return f"{side}-{spec.label}"


def attacked_null_name(spec: NullSpec, label: str) -> str:
    return f"{null_name(spec, 'heldout')}-attacked-{label}"


def _own(run: Run, texts: TextSet) -> ScoredSet:
    assert run.detector is not None
    score, attacks = run.detector.score, [attack.label for attack in run.plan.attacks]
    role: Role = "clean" if texts.name == CLEAN or texts.name.startswith(attacked_clean_name("")) else "marked"
    attack = next((a for a in attacks if texts.name in (attacked_name(a), attacked_clean_name(a))), None)
    return ScoredSet(
        texts.name,
        texts.digest,
        lambda: texts.ids,
        lambda key: score(features_of(run, texts.name), key),
        role,
        lambda: features_of(run, texts.name).lengths,
        attack,
    )


def _null(run: Run, spec: NullSpec, side: Side) -> ScoredSet:
    name, source = null_name(spec, side), digest([spec.identity, side])
    return _of_library(run, spec, name, source, lambda: run.library.texts(spec)[side], side)


def _attacked_null(run: Run, spec: NullSpec, attack: AttackChain) -> ScoredSet:
    config, backbone = run.plan.config, run.plan.backbone
    count, seed = config.attacked_nulls, config.seed
    source = digest([spec.identity, "attacked", attack.describe(), backbone.describe(), count, seed])
    name = attacked_null_name(spec, attack.label)
    found = _of_library(
        run,
        spec,
        name,
        source,
        lambda: run.library.attacked(spec, attack, backbone, count, seed, again=config.retry_failed),
        "heldout",
        attack.label,
    )
    return replace(found, wanted=min(count, spec.sizes["heldout"]))


def _of_library(
    run: Run,
    spec: NullSpec,
    name: str,
    source: str,
    texts: Callable[[], TextSet],
    role: Role,
    attack: str | None = None,
) -> ScoredSet:
    def score(key: SecretKey | None) -> Views:
        assert run.detector is not None
        if not len(texts()):  # the attack has failed on every one
            names = run.detector.probe(key).names
            return Views(names, np.empty((0, len(names))))
        return run.library.scores(spec, texts(), run.detector, key)

    def tokens() -> IntArray:
        assert run.detector is not None
        return run.library.features(spec, texts(), run.detector).lengths

    return ScoredSet(name, source, lambda: texts().ids, score, role, tokens, attack)
