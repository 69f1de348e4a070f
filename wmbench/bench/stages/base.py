"""What a stage is, and what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from wmbench.bench.draws import attempts
from wmbench.bench.jsonl import JsonlFile, Record
from wmbench.errors import IntegrityError
from wmbench.keys import SecretKey
from wmbench.types import Sample

if TYPE_CHECKING:
    from wmbench.bench.build import Builder
    from wmbench.bench.detector import Detector
    from wmbench.bench.nulls import NullLibrary, NullSpec
    from wmbench.bench.plan import RunPlan
    from wmbench.bench.store import RunStore
    from wmbench.bench.workers import Executor
    from wmbench.observers import ProgressObserver
    from wmbench.runtime.backbone import Backbone


@dataclass(frozen=True, eq=False)
class Run:
    """One run in progress: its plan, its folder and what has been loaded for it."""

    plan: RunPlan
    builder: Builder
    store: RunStore
    identity: dict[str, Any]
    samples: Sequence[Sample]
    """The prompts. Topping up may leave some of them unanswered."""
    key: SecretKey | None
    backbone: Backbone
    progress: ProgressObserver | None
    observers: tuple[object, ...]
    trace: bool
    note: Callable[[str], None]
    """Tells the user something, on one line."""
    clean: Run | None = None
    """The control of the same comparison, whose clean texts are a null family."""
    executor: Executor | None = None
    """Processes that share the work; None: this one does it all."""

    @cached_property
    def answers(self) -> list[Sample]:
        """Everything that may be in samples.jsonl, in its order: each prompt, behind it its retries."""
        return [attempt for sample in self.samples for attempt in attempts(sample, self.plan.config.retries)]

    @property
    def wanted(self) -> int:
        """Texts that were asked for."""
        return self.plan.config.samples if self.plan.config.top_up and self.plan.config.samples else len(self.samples)

    @cached_property
    def detector(self) -> Detector | None:
        """None for a scheme that has none; its run ends with the attacks."""
        from wmbench.bench.detector import Detector

        detector = Detector(self.plan, self.builder, self.backbone.codec)
        return detector if detector.exists else None

    @cached_property
    def nulls(self) -> list[NullSpec]:
        """The first one calibrates."""
        from wmbench.bench.nulls import NullSpec

        return NullSpec.all_of(self.plan, self.backbone.codec)

    @cached_property
    def library(self) -> NullLibrary:
        from wmbench.bench.nulls import NullLibrary

        return NullLibrary.beside(self.plan.config.output, self.builder, self.note, self.progress)

    @property
    def threads(self) -> int:
        import torch

        return torch.get_num_threads()


@dataclass(frozen=True, slots=True)
class Tally:
    """How far one file has come. A failed item is done: it says why it failed."""

    total: int
    done: int
    failed: int = 0

    def as_dict(self) -> dict[str, int]:
        return {"total": self.total, "done": self.done, "failed": self.failed}


class Stage(Protocol):
    """One step of the pipeline. Stages hold no state: all they know is in the run's files."""

    name: str

    def is_complete(self, run: Run) -> bool:
        """Judged by the files alone, and cheap: nothing is computed."""

    def work(self, run: Run) -> None:
        """Compute what is missing, appending each item as soon as it is done."""

    def tallies(self, run: Run) -> dict[str, Tally]:
        """Counts for run.json, by file."""


def finished_items(file: JsonlFile, expected: Iterable[str]) -> list[Record]:
    """The records of a stage's file, repaired; an item that is unknown or occurs twice is an error."""
    records = file.read(repair=True)
    known, seen = set(expected), set[str]()
    for number, record in enumerate(records, start=1):
        identity = record.get("id")
        if identity not in known or identity in seen:
            raise IntegrityError(
                f"{file.path.name} holds {'a second' if identity in seen else 'an unknown'} item {identity!r}",
                where=f"{file.path}:{number}",
                hint="restore the file, or delete the run folder and run the same command again",
            )
        seen.add(identity)
    return records
