"""Texts that are scored together: the samples of a run, one attack's results, one half of a null set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from wmbench.bench.derived import digest
from wmbench.bench.jsonl import Record

if TYPE_CHECKING:
    from wmbench.bench.stages.base import Run
    from wmbench.types import TextCodec


@dataclass(frozen=True)
class TextSet:
    """Texts with ids, in order."""

    name: str
    """Names its files."""
    ids: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, name: str, records: Iterable[Record]) -> TextSet:
        kept = list(records)
        return cls(name, tuple(record["id"] for record in kept), tuple(record["text"] for record in kept))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return zip(self.ids, self.texts, strict=True)

    def first(self, count: int) -> TextSet:
        return TextSet(self.name, self.ids[:count], self.texts[:count])

    def cut(self, tokens: int, codec: TextCodec) -> TextSet:
        """The first tokens of every text. A cut inside a word may retokenise to one token more or less."""
        whole = codec.encode_batch(self.texts)
        parts = zip(self.texts, whole, strict=True)
        texts = tuple(codec.decode(ids[:tokens]) if len(ids) > tokens else text for text, ids in parts)
        return TextSet(f"{self.name}-first-{tokens}", self.ids, texts)

    @cached_property
    def digest(self) -> str:
        return digest([self.ids, self.texts])


SAMPLES, CLEAN = "samples", "clean"
UNATTACKED: Final = "unattacked"
"""The samples themselves, where the others of a list are attacks."""


def attacked_name(label: str) -> str:
    return f"attacked-{label}"


def attacked_clean_name(label: str) -> str:
    return f"clean-attacked-{label}"


def own_sets(run: Run) -> list[TextSet]:
    """What the run itself has made, and the control's clean texts; sets without any text are left out."""
    labels, kept = [attack.label for attack in run.plan.attacks], kept_samples(run)
    sets = [TextSet.of(SAMPLES, kept)]
    sets += [TextSet.of(attacked_name(label), _attacked(run, label, kept)) for label in labels]
    if run.clean is not None:
        clean = kept_samples(run.clean)
        sets.append(TextSet.of(CLEAN, clean))
        for label in labels if run.plan.config.attacked_nulls else ():
            sets.append(TextSet.of(attacked_clean_name(label), _attacked(run.clean, label, clean)))
    return [texts for texts in sets if len(texts)]


def kept_samples(run: Run) -> list[Record]:
    """The samples that passed the filters."""
    kept = {verdict["id"] for verdict in run.store.filter.read() if verdict["kept"]}
    return [sample for sample in run.store.samples.read() if sample["id"] in kept]


def attacked_texts(run: Run, label: str) -> list[Record]:
    """Results of one attack on the kept samples, in their order; failed ones have no text and are left out."""
    return _attacked(run, label, kept_samples(run))


def _attacked(run: Run, label: str, kept: Iterable[Record]) -> list[Record]:
    results = {record["id"]: record for record in run.store.attacked(label).read() if record["text"] is not None}
    return [results[sample["id"]] for sample in kept if sample["id"] in results]
