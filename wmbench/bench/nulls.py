"""Null texts and their features, shared by all runs of a folder.

runs/.cache/nulls/<null set>_<hash>/
  texts.jsonl                    calibration and held-out texts, each with its side and length
  attacked/<attack>_<hash>.jsonl held-out texts after an attack
  features/<hash>/<part>.*.npy   packed once for every scheme that computes the same features; key-free
  scores/<hash>/<part>.npz       raw scores under one scheme and key, shared by all prompt datasets

It is a cache: deleted files are computed again, to the same bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from filelock import FileLock

from wmbench.bench.attack_files import attack_batch, attack_into
from wmbench.bench.attack_plan import AttackChain
from wmbench.bench.derived import digest, file_digest, source_digest
from wmbench.bench.factories import source_file
from wmbench.bench.jsonl import JsonlFile, Record
from wmbench.bench.packed import kept_packed
from wmbench.bench.plan import RunPlan
from wmbench.bench.resolved import Resolved
from wmbench.bench.split import SIDES, Picked, Picker, Side
from wmbench.bench.textset import TextSet
from wmbench.detection.archive import read_archive, write_archive
from wmbench.disk import make_folder, pretty_json, write_atomic
from wmbench.errors import ConfigError, IntegrityError
from wmbench.keys import SecretKey
from wmbench.observers import ProgressObserver, watched
from wmbench.settings import Settings
from wmbench.types import AttackInput, BackboneEntry, DatasetInfo, Features, TextCodec, Views

if TYPE_CHECKING:
    from wmbench.bench.build import Builder
    from wmbench.bench.detector import Detector

_CHUNK: Final = 250
_DRAWN_PER_WANTED: Final = (1.7, 3.5, 7.0)
"""Texts asked for, in steps, for each one wanted: sides and lengths fill up unevenly."""


@dataclass(frozen=True)
class NullSpec:
    """Everything that determines a null set."""

    source: Resolved[DatasetInfo]
    codec: TextCodec
    lengths: tuple[int, int]
    calibration: int
    heldout: int

    @classmethod
    def all_of(cls, plan: RunPlan, codec: TextCodec) -> list[NullSpec]:
        """The null sets of a plan; the first one calibrates."""
        config = plan.config
        sizes = config.calibration_texts, config.heldout_texts
        return [cls(source, codec, plan.null_lengths, *sizes) for source in plan.nulls]

    @property
    def sizes(self) -> dict[Side, int]:
        return {"calibration": self.calibration, "heldout": self.heldout}

    @cached_property
    def identity(self) -> Settings:
        file = source_file(self.source.entry, self.source.argument)
        return {
            "set": f"{self.source.info.name}{self.source.argument}",
            "plugin": str(self.source.entry.plugin),
            # A set that is read from a file changes with that file.
            "file": source_digest(file) if file else None,
            "codec": self.codec.fingerprint,
            "tokens": list(self.lengths),
            "calibration": self.calibration,
            "heldout": self.heldout,
        }

    @property
    def label(self) -> str:
        """Names its files. Two files of one name differ in the hash behind it."""
        return self.source.label

    @property
    def digest(self) -> str:
        return digest(self.identity)


class NullLibrary:
    """The null sets beside the runs. Several processes may share it: each set is made under a lock."""

    def __init__(
        self,
        folder: Path,
        builder: Builder,
        note: Callable[[str], None] = lambda _: None,
        progress: ProgressObserver | None = None,
    ) -> None:
        self._folder = folder
        self._builder = builder
        self._note = note
        self._progress = progress
        self._texts: dict[str, dict[Side, TextSet]] = {}
        self._attacked: dict[tuple[Path, int], TextSet] = {}

    @classmethod
    def beside(
        cls,
        runs: Path,
        builder: Builder,
        note: Callable[[str], None] = lambda _: None,
        progress: ProgressObserver | None = None,
    ) -> NullLibrary:
        return cls(runs / ".cache" / "nulls", builder, note, progress)

    def folder(self, spec: NullSpec) -> Path:
        return self._folder / f"{spec.label}_{spec.digest[:10]}"

    def texts(self, spec: NullSpec) -> dict[Side, TextSet]:
        """Both sides, drawn when they are not there yet."""
        if spec.digest not in self._texts:
            folder = self.folder(spec)
            make_folder(folder)
            file = JsonlFile(folder / "texts.jsonl")
            with FileLock(folder / ".lock"):
                if not _is_intact(file.path):
                    file.rewrite(self._draw(spec))
                    write_atomic(_stamp(file.path), pretty_json({**spec.identity, "content": file_digest(file.path)}))
            records = file.read()
            self._texts[spec.digest] = {side: TextSet.of(side, _of_side(records, side)) for side in SIDES}
        return self._texts[spec.digest]

    def attacked(
        self,
        spec: NullSpec,
        attack: AttackChain,
        backbone: Resolved[BackboneEntry],
        count: int,
        seed: int,
        *,
        again: bool = False,
    ) -> TextSet:
        """The first `count` held-out texts after an attack, made when they are not there yet; failed ones left out, or
        attacked again, once. `backbone` is the run's own, which some attacks use."""
        heldout = self.texts(spec)["heldout"].first(count)
        name = f"{attack.label}_{digest([attack.describe(), backbone.describe(), seed])[:10]}"
        file = JsonlFile(self.folder(spec) / "attacked" / f"{name}.jsonl")
        if (file.path, count) in self._attacked:
            return self._attacked[file.path, count]
        make_folder(file.path.parent)
        with FileLock(file.path.with_suffix(".lock")):
            records = file.read(repair=True)
            if again and any(record["error"] for record in records):
                records = [record for record in records if not record["error"]]
                file.rewrite(records)
            done = {record["id"] for record in records}
            missing = [AttackInput(i, text) for i, text in heldout if i not in done]
            if missing:
                self._note(f"attacking {len(missing):,} null texts ({spec.label}, {attack.label})")
                attacked = attack_batch(attack, self._builder, backbone, spec.codec, seed)
                with watched(self._progress, f"{attack.label}, null texts {spec.label}", len(missing)) as advance:
                    attack_into(file, missing, attacked, advance)
        results = {record["id"]: record for record in file.read() if record["text"] is not None}
        texts = TextSet.of(f"attacked-{name}-{count}", (results[i] for i in heldout.ids if i in results))
        return self._attacked.setdefault((file.path, count), texts)

    def cut(self, spec: NullSpec, tokens: int) -> TextSet:
        """The calibration texts, each cut to its first tokens."""
        return self.texts(spec)["calibration"].cut(tokens, spec.codec)

    def features(self, spec: NullSpec, texts: TextSet, detector: Detector) -> Features:
        """Of a part of the null set. Key-free, so computed once for all keys, data sets and settings of marking."""
        folder = self.folder(spec) / "features" / detector.features_digest[:10]
        made_of = {"texts": texts.digest, "features": detector.features_identity}

        def compute() -> Iterator[Features]:
            self._note(f"computing features of {len(texts):,} null texts ({spec.label}, {texts.name})")
            with watched(self._progress, f"features, null texts {spec.label}", len(texts)) as advance:
                for part in detector.features(texts.texts):
                    yield part
                    advance(len(part))

        return kept_packed(folder, texts.name, made_of, compute)

    def has_features(self, spec: NullSpec, side: Side, detector: Detector) -> bool:
        """Whether they have been computed before; a guess for estimates, without reading anything."""
        return (self.folder(spec) / "features" / detector.features_digest[:10] / f"{side}.json").exists()

    def scores(self, spec: NullSpec, texts: TextSet, detector: Detector, key: SecretKey | None) -> Views:
        """Raw scores of a part of the null set under a key: the same for every data set, so computed once."""
        made_of = digest([texts.digest, detector.features_identity, detector.identity, key.id if key else None])
        path = self.folder(spec) / "scores" / made_of[:10] / f"{texts.name}.npz"
        make_folder(path.parent)
        with FileLock(path.with_suffix(".lock")):
            with suppress(ConfigError, IntegrityError):  # it is not there, or damaged
                arrays, metadata = read_archive(path)
                if metadata.get("made_of") == made_of:
                    return Views(tuple(metadata["views"]), arrays["scores"])
            views = detector.score(self.features(spec, texts, detector), key)
            write_archive(path, {"scores": views.scores}, {"made_of": made_of, "views": views.names})
        return views

    def _draw(self, spec: NullSpec) -> list[Record]:
        self._note(f"drawing {sum(spec.sizes.values()):,} null texts of {'-'.join(map(str, spec.lengths))} tokens")
        picker = Picker(spec.codec, spec.lengths, spec.sizes)
        picked: list[Picked] = []
        offered = 0
        for share in _DRAWN_PER_WANTED:
            limit = int(share * sum(spec.sizes.values())) + _CHUNK
            source = islice(self._builder.null_texts(spec.source, limit), offered, limit)
            while not picker.is_full and (chunk := list(islice(source, _CHUNK))):
                offered += len(chunk)
                picked += picker.pick(chunk)
            if picker.is_full or offered < limit:
                break
        if not picker.is_full:
            raise ConfigError(
                f"null set {spec.label!r} has too few texts",
                why=f"of {offered:,} texts {len(picked):,} could be used; missing are {picker.missing()}",
                hint="ask for fewer texts (--calibration-texts, --heldout-texts) or choose another set with --nulls",
            )
        repeated, times = Counter(item.null.id for item in picked).most_common(1)[0]
        if times > 1:
            raise ConfigError(
                f"null set {spec.label!r} has two texts with the id {repeated!r}",
                hint="give every text its own id, and the texts of one document the same `document`",
            )
        return [_record(item) for item in picked]


def _record(item: Picked) -> Record:
    null = item.null
    return {
        "id": null.id,
        "side": item.side,
        "tokens": item.tokens,
        "family": null.family,
        "document": null.document or null.id,
        "domain": null.domain,
        "text": null.text,
    }


def _of_side(records: Iterable[Record], side: Side) -> list[Record]:
    return [record for record in records if record["side"] == side]


def _stamp(path: Path) -> Path:
    return path.with_suffix(".json")


def _is_intact(path: Path) -> bool:
    try:
        expected = json.loads(_stamp(path).read_bytes())["content"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(file_digest(path) == expected)
