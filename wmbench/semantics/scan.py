"""The unit-size scan, shared by all semantic schemes: embeddings of units, and statistics of texts at every size. No
torch.

A text is cut into units at every size of the scan. A scheme gives every unit a score under its key; each size is one
view, whose statistic is made of the scores of the text's units. Units without any words are left out; a text without
units has the statistic 0. Embeddings do not depend on the key and are packed as fp16, so that another key costs a pass
over that matrix and no encoder call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wmbench import hookimpl
from wmbench.detection import Calibration
from wmbench.errors import ConfigError
from wmbench.semantics.scan_config import ScanConfig
from wmbench.semantics.units import EMPTY_TEXT, embed_units, unit_windows
from wmbench.types import (
    AnyArray,
    Encoder,
    Evidence,
    Features,
    IntArray,
    SchemeContext,
    TextCodec,
    TextContext,
    Verdict,
    Views,
)

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_VALUES_AT_ONCE = 1 << 16
"""Embedding entries converted to float32 at once: 256 kB, which stays in the processor's cache."""
_HALF_INFINITY = 0x7C00
"""Bits of the fp16 infinity without its sign; larger ones are no numbers."""


class UnitDetector:
    """The hooks `features` and `detect` of a semantic scheme; the scheme itself adds `score`."""

    def __init__(self, config: ScanConfig, context: SchemeContext) -> None:
        self._scan = config
        self._context = context
        self._encoder: Encoder | None = None

    @property
    def encoder(self) -> Encoder:
        """Loaded when first needed, and checked."""
        if self._encoder is None:
            if self._context.load_encoder is None:
                raise ConfigError("the scheme needs an encoder, and none can be loaded here")
            self._encoder = _checked(self._context.load_encoder(self._scan.encoder), self._scan)
        return self._encoder

    @hookimpl
    def features(self, texts: Sequence[str]) -> Features:
        return unit_features(texts, self.encoder, self._context.codec, self._scan)

    @hookimpl
    def detect(self, views: Views, calibration: Calibration | None, context: TextContext) -> Sequence[Verdict] | None:
        """The host's verdict is the paper's; None leaves it to the host."""
        if self._scan.scan_rule == "bonferroni" or calibration is None:
            return None
        return min_p_verdicts(views, calibration, context)


def _checked(encoder: Encoder, config: ScanConfig) -> Encoder:
    """The encoder, if its vectors have the dimension that it declares and the user expects."""
    found = encoder.encode([EMPTY_TEXT]).shape[-1]
    expected = config.dimension or encoder.dimension
    if not found == encoder.dimension == expected:
        raise ConfigError(
            f"encoder {config.encoder!r} has the wrong dimension",
            why=f"its vectors have {found} entries, it declares {encoder.dimension}, {expected} are expected",
            hint="name the encoder the text was marked with (`-S encoder=<name>`), or leave `dimension` out",
        )
    return encoder


def unit_features(
    texts: Sequence[str],
    encoder: Encoder,
    codec: TextCodec,
    config: ScanConfig,
    dtype: npt.DTypeLike = np.float16,
) -> Features:
    """Embeddings of all units of all sizes, in the order of `unit_windows`; zero vectors for units without words."""
    ids = [np.asarray(tokens[: config.scored_tokens], dtype=np.int64) for tokens in codec.encode_batch(texts)]
    features = embed_units(encoder, codec, ids, config.sizes, dtype)
    if _largest_magnitude(features.values) >= _HALF_INFINITY:
        raise ConfigError(f"encoder {config.encoder!r} returned vectors that are no numbers")
    has_words = WordTest(codec)
    for i, tokens in enumerate(ids):
        words = has_words(tokens)
        if not words.all():
            until = np.concatenate([[0], np.cumsum(words)])
            starts, ends = unit_windows(len(tokens), config.sizes)
            features.of(i)[until[starts] == until[ends]] = 0
    return features


class UnitTable:
    """All units of all texts at all sizes, one after the other: `unit_features` with an index."""

    def __init__(self, features: Features, config: ScanConfig) -> None:
        counts = -(-features.lengths[:, None] // np.array(config.sizes))  # [texts, sizes]
        width = features.values.shape[1] if features.values.ndim == 2 else 0
        if width != (config.dimension or width) or not np.array_equal(counts.sum(axis=1), np.diff(features.offsets)):
            raise ConfigError(
                "these features were not made with the present settings of the scheme",
                why=f"{len(features.values)} vectors of dimension {width} for {counts.sum()} units of "
                f"{len(config.sizes)} sizes, dimension {config.dimension or 'any'}",
                hint="compute the features again: encoder, sizes and units must be the same as for the scores",
            )
        self.features = features
        self.config = config
        self.dimension = width
        flat = counts.ravel()
        self.units: IntArray = np.arange(flat.sum()) - np.repeat(np.cumsum(flat) - flat, flat)
        """[N] b, from 0"""
        self.groups: IntArray = np.repeat(np.arange(len(flat)), flat)
        """[N] text * sizes + index of the size"""
        self.most_units = int(self.units.max()) + 1 if len(self.units) else 0

    def projections(self, vectors: Floats, index: IntArray | None = None) -> Floats:
        """[N] <E, v> of every unit with the vector [.., dimension] of its index (default: the only vector), each row
        summed by itself: a text's score does not depend on its neighbours."""
        values = self.features.values
        index = np.zeros(len(values), dtype=np.int64) if index is None else index
        scores = np.empty(len(values))
        rows = max(1, _VALUES_AT_ONCE // max(1, self.dimension))
        half = values.dtype == np.float16
        widened = vectors.astype(np.float32) * np.float32(2.0**112 if half else 1.0)
        for at in range(0, len(values), rows):
            part = slice(at, at + rows)
            embeddings = _shrunk(values[part]) if half else values[part].astype(np.float32)
            scores[part] = np.einsum("nd,nd->n", embeddings, widened[index[part]])
        return scores

    def counted(self, projections: Floats) -> Flags:
        """[N] units that count: they have words, and are among those to be scored. A unit without words is a zero
        vector, so that only a projection of zero can be one."""
        counted = np.ones(len(self.units), dtype=bool)
        suspects = np.flatnonzero(projections == 0)
        counted[suspects] = self.features.values[suspects].any(axis=1)
        if self.config.scored_units is not None:
            counted &= self.units < self.config.scored_units
        return counted

    def totals(self, values: AnyArray) -> Floats:
        """[texts, sizes] sum of the values [N] over the units of a text at a size."""
        shape = len(self.features), len(self.config.sizes)
        sums: Floats = np.bincount(self.groups, weights=values, minlength=shape[0] * shape[1]).astype(np.float64)
        return sums.reshape(shape)

    def of_units(self, per_text: Floats) -> Floats:
        """[N] for every unit the value [texts, sizes] of its text and size."""
        return per_text.ravel()[self.groups]

    def views(self, statistics: Floats, shares: Floats, counted: Flags, context: TextContext) -> Views:
        """Views from statistics [texts, sizes]; `shares` [N] is what each unit adds to them, for the evidence."""
        names = tuple(str(size) for size in self.config.sizes)
        if not context.evidence:
            return Views(names, statistics)
        evidence = tuple(self._evidence(i, shares, counted) for i in range(len(self.features)))
        return Views(names, statistics, evidence)

    def _evidence(self, i: int, shares: Floats, counted: Flags) -> dict[str, tuple[Evidence, ...]]:
        """By size the units of text i and what each adds to the statistic."""
        features = self.features
        mine = slice(int(features.offsets[i]), int(features.offsets[i + 1]))
        weights, used = shares[mine], counted[mine]
        evidence, at = {}, 0
        for size in self.config.sizes:
            starts, ends = unit_windows(int(features.lengths[i]), [size])
            evidence[str(size)] = tuple(
                Evidence(int(start), int(end), float(weights[at + b]), f"unit {b} of size {size}")
                for b, (start, end) in enumerate(zip(starts, ends, strict=True))
                if used[at + b]
            )
            at += len(starts)
        return evidence


def mean_views(table: UnitTable, scores: Floats, context: TextContext) -> Views:
    """The statistic of DenMark: the mean of the unit scores [N]."""
    counted = table.counted(scores)
    numbers = np.maximum(table.totals(counted), 1)
    means = table.totals(scores * counted) / numbers
    return table.views(means, scores * counted / table.of_units(numbers), counted, context)


def min_p_verdicts(views: Views, calibration: Calibration, context: TextContext) -> list[Verdict]:
    """Verdicts by the rank of the smallest p among all texts: exact under exchangeability, no Bonferroni factor."""
    calibration.require(context.alpha, "min_p")
    calibration.require_views(views.names)
    scan = calibration.scan(views.scores)
    method = f"min-p rank over {len(views.names)} views (not the paper's rule)"
    verdicts = []
    for i, p in enumerate(calibration.min_p(views.scores).tolist()):
        best = int(scan.best_view[i])
        name = views.names[best]
        details = {
            "raw_score": float(views.scores[i, best]),
            "p_view": float(scan.p[i, best]),
            "p_bonferroni": float(scan.p_scan[i]),
            "n_views": len(views.names),
            "n_nulls": calibration.n0,
        }
        evidence = views.evidence[i].get(name, ()) if views.evidence is not None else ()
        verdicts.append(
            Verdict(p, 0.0 - float(np.log(p)), p <= context.alpha, context.alpha, name, method, evidence, details)
        )
    return verdicts


def _shrunk(half: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Finite fp16 numbers times 2^-112, exactly: their bits at the places of float32, whose exponent counts from 112
    further down. Four times as fast as numpy's conversion, which would be most of the time of a score."""
    bits = half.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(~0x70000000)  # what the sign was extended into
    return bits.view(np.float32)


def _largest_magnitude(values: AnyArray) -> int:
    """Bits of the largest fp16 entry without its sign: numbers are ordered as their bits are."""
    return int((values.astype(np.float16, copy=False).view(np.uint16) & 0x7FFF).max(initial=0))


class WordTest:
    """Which ids have text of their own: not special, not blank."""

    def __init__(self, codec: TextCodec) -> None:
        self._has_text = lru_cache(maxsize=None)(lambda i: bool(codec.decode([i]).strip()))

    def __call__(self, ids: IntArray) -> Flags:
        distinct, inverse = np.unique(ids, return_inverse=True)
        return np.array([self._has_text(i) for i in distinct.tolist()], dtype=bool)[inverse]
