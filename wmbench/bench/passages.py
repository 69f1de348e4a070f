"""False positives on passages of real text: half of the documents calibrate, the others are judged, under every key.

Features do not depend on the key. They are computed once and kept, so that a further key costs one pass over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wmbench.bench.derived import digest
from wmbench.bench.detector import Detector
from wmbench.bench.measure import FPR_TARGETS, rate, target_name
from wmbench.bench.null_files import file_nulls
from wmbench.bench.split import fitted, half_of
from wmbench.detection import Calibration
from wmbench.errors import ConfigError
from wmbench.keys import SecretKey
from wmbench.types import Features, NullText, TextCodec, Views

Flags = npt.NDArray[np.bool_]
_CHUNK: Final = 250
_RESAMPLES: Final = 2000


@dataclass(frozen=True)
class Passages:
    """Texts of known documents, each of a length that a detector is meant for."""

    texts: tuple[str, ...]
    documents: tuple[str, ...]
    sources: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def calibrates(self) -> Flags:
        """[n] whether a passage is on the side that calibrates; all passages of a document are on one side."""
        return np.array([half_of(document) == "calibration" for document in self.documents], dtype=bool)

    @property
    def digest(self) -> str:
        return digest([self.texts, self.documents])

    def require_halves(self) -> None:
        if not len(self) or self.calibrates.all() or not self.calibrates.any():
            raise ConfigError(
                "one half of the documents has no passage",
                why=f"{len(set(self.documents))} documents, {len(self)} passages of a usable length",
                hint="give more documents, or another --backbone whose tokenizer suits them",
            )


def read_passages(
    files: Sequence[str], codec: TextCodec, lengths: tuple[int, int], documents: int | None = None
) -> Passages:
    """All passages of the files that have the length, longer ones cut at a random place; equal ones once. With
    `documents` only those of so many documents, the first in the files."""
    found: dict[str, tuple[str, str]] = {}
    wanted: set[str] = set()
    for file in files:
        nulls = file_nulls(file)
        while chunk := list(islice(nulls, _CHUNK)):
            for null, ids in zip(chunk, codec.encode_batch([null.text for null in chunk]), strict=True):
                document = null.document or null.id
                if documents is not None and document not in wanted and len(wanted) == documents:
                    continue
                wanted.add(document)
                if (fit := fitted(null, ids, codec, lengths)) is not None:
                    found.setdefault(fit[0].text, (document, _source(null)))
    documents_of, sources = zip(*found.values(), strict=True) if found else ((), ())
    return Passages(tuple(found), documents_of, sources)


def _source(null: NullText) -> str:
    return null.domain or "unnamed"


def judged(
    detector: Detector,
    passages: Passages,
    features: Features,
    keys: Sequence[SecretKey | None],
    advance: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Rates at every level, over keys and by source. JSON values."""
    calibrates = passages.calibrates
    null_texts = int(calibrates.sum())
    views = detector.probe(keys[0])
    refusals = {target: detector.unresolved(views, null_texts, target) for target in FPR_TARGETS}
    levels = [target for target, refusal in refusals.items() if refusal is None]
    if not levels:
        raise next(refusal for refusal in refusals.values() if refusal)
    p_values = np.stack([_p_values(detector, features, key, calibrates, levels[-1], advance) for key in keys])
    held_out = [i for i in range(len(passages)) if not calibrates[i]]
    documents = [passages.documents[i] for i in held_out]
    sources = np.array([passages.sources[i] for i in held_out])
    return {
        "scheme": detector.plan.scheme.label,
        "settings": detector.plan.scheme.dump(),
        "keys": len(keys),
        "calibration": {"passages": null_texts, "documents": len({*passages.documents} - {*documents})},
        "heldout": {"passages": len(held_out), "documents": len({*documents})},
        "fpr": {
            target_name(level): over_keys_and_documents(p_values <= level, documents) if level in levels else None
            for level in FPR_TARGETS
        },
        "unresolved": {target_name(t): refusal.hint for t, refusal in refusals.items() if refusal},
        "sources": {
            source: {
                "passages": int((sources == source).sum()),
                "fpr": {target_name(t): float((p_values[:, sources == source] <= t).mean()) for t in levels},
            }
            for source in sorted({*sources.tolist()})
        },
    }


def _p_values(
    detector: Detector,
    features: Features,
    key: SecretKey | None,
    calibrates: Flags,
    level: float,
    advance: Callable[[int], None],
) -> npt.NDArray[np.float64]:
    """Of the held-out passages, by a calibration of the others under the same key."""
    views = detector.score(features, key)
    calibration = Calibration(views.scores[calibrates], views.names)
    verdicts = detector.detect(Views(views.names, views.scores[~calibrates]), calibration, level)
    advance(1)
    return np.array([verdict.p_value for verdict in verdicts])


def over_keys_and_documents(hits: Flags, documents: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """The mean of hits [keys, texts]. One key moves all texts, and texts of a document are alike: so both keys and
    documents are resampled. The scatter of the calibration half is not in the interval."""
    _, place = np.unique(np.array(documents), return_inverse=True)
    texts = np.bincount(place)
    per_document = np.stack([np.bincount(place, weights=row, minlength=len(texts)) for row in hits])
    generator = np.random.Generator(np.random.Philox(seed))
    key_weights = generator.multinomial(len(hits), np.full(len(hits), 1 / len(hits)), _RESAMPLES)
    document_weights = generator.multinomial(len(texts), np.full(len(texts), 1 / len(texts)), _RESAMPLES)
    found = np.einsum("rk,kr->r", key_weights, per_document @ document_weights.T)
    low, high = np.quantile(found / (len(hits) * (document_weights @ texts)), [0.025, 0.975])
    per_key = hits.mean(axis=1)
    return {
        "estimate": float(per_key.mean()),
        "low": float(low),
        "high": float(high),
        "method": "bootstrap over keys and documents" if len(hits) > 1 else "bootstrap over documents",
        "n": [len(hits), len(texts)],
        "per_key": per_key.tolist(),
        "texts_per_key": [rate(row) for row in hits],
    }


def told(chunks: Iterator[Features], advance: Callable[[int], None]) -> Iterator[Features]:
    """The same chunks; whoever watches is told of every one."""
    for chunk in chunks:
        yield chunk
        advance(len(chunk))
