"""Finding the mark: embeddings of units, their scores under a key, and the sharper of the two scan rules. No torch.

S_m'(text) = mean over its units b of <E(unit b), v_b>, for every size m' of the scan. A unit without any words is left
out of the mean; a text without units has S = 0. Embeddings do not depend on the key and are packed as fp16, so another
key costs a pass over that matrix and no encoder call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from wmbench.detection import Calibration
from wmbench.errors import CalibrationError, ConfigError
from wmbench.keys import SecretKey
from wmbench.semantics.units import embed_units, unit_windows
from wmbench.types import AnyArray, Encoder, Evidence, Features, IntArray, TextCodec, TextContext, Verdict, Views
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.keys import UnitVectors

Floats = npt.NDArray[np.float64]
_VALUES_AT_ONCE = 1 << 16
"""Embedding entries converted to float32 at once: 256 kB, which stays in the processor's cache."""
_HALF_INFINITY = 0x7C00
"""Bits of the fp16 infinity without its sign; larger ones are no numbers."""


def unit_features(
    texts: Sequence[str],
    encoder: Encoder,
    codec: TextCodec,
    config: DenMarkConfig,
    dtype: npt.DTypeLike = np.float16,
) -> Features:
    """Embeddings of all units of all sizes, in the order of `unit_windows`; zero vectors for units without words."""
    ids = [np.asarray(tokens[: config.scored_tokens], dtype=np.int64) for tokens in codec.encode_batch(texts)]
    features = embed_units(encoder, codec, ids, config.sizes, dtype)
    if _largest_magnitude(features.values) >= _HALF_INFINITY:
        raise ConfigError(f"encoder {config.encoder!r} returned vectors that are no numbers")
    has_words = _WordTest(codec)
    for i, tokens in enumerate(ids):
        words = has_words(tokens)
        if not words.all():
            until = np.concatenate([[0], np.cumsum(words)])
            starts, ends = unit_windows(len(tokens), config.sizes)
            features.of(i)[until[starts] == until[ends]] = 0
    return features


def unit_scores(features: Features, key: SecretKey | None, config: DenMarkConfig, context: TextContext) -> Views:
    """S_m' of every text at every size."""
    layout = _Layout.of(features, config)
    vectors = UnitVectors(config, key, features.values.shape[1]).first(layout.most_units).astype(np.float32)
    scores = _projections(features.values, layout.units, vectors)
    counted = _has_words(features.values, scores)
    if config.scored_units is not None:
        counted &= layout.units < config.scored_units
    groups = len(features) * len(config.sizes)
    totals = np.bincount(layout.group, weights=scores * counted, minlength=groups)
    numbers = np.bincount(layout.group, weights=counted, minlength=groups)
    means = (totals / np.maximum(numbers, 1)).reshape(len(features), len(config.sizes))
    names = tuple(str(size) for size in config.sizes)
    if not context.evidence:
        return Views(names, means)
    shares = scores * counted / np.maximum(numbers, 1)[layout.group]
    return Views(names, means, tuple(_evidence(i, features, shares, counted, config) for i in range(len(features))))


def min_p_verdicts(views: Views, calibration: Calibration, context: TextContext) -> list[Verdict]:
    """Verdicts by the rank of the smallest p among all texts: exact under exchangeability, no Bonferroni factor."""
    calibration.require(context.alpha, "min_p")
    if views.names != calibration.views:
        raise CalibrationError(
            "the scores and the calibration have different unit sizes",
            why=f"scores: {', '.join(views.names)}; calibration: {', '.join(calibration.views)}",
            hint="calibrate again with the present configuration of the scheme",
        )
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


class _Layout:
    """Which unit of which text and size every embedding is."""

    def __init__(self, units: IntArray, group: IntArray) -> None:
        self.units = units
        """[embeddings] b, from 0"""
        self.group = group
        """[embeddings] text * sizes + index of the size"""
        self.most_units = int(units.max()) + 1 if len(units) else 0

    @classmethod
    def of(cls, features: Features, config: DenMarkConfig) -> _Layout:
        counts = -(-features.lengths[:, None] // np.array(config.sizes))  # [texts, sizes]
        width = features.values.shape[1] if features.values.ndim == 2 else 0
        if width != (config.dimension or width) or not np.array_equal(counts.sum(axis=1), np.diff(features.offsets)):
            raise ConfigError(
                "these features were not made with the present settings of DenMark",
                why=f"{len(features.values)} vectors of dimension {width} for {counts.sum()} units of "
                f"{len(config.sizes)} sizes, dimension {config.dimension or 'any'}",
                hint="compute the features again: encoder, sizes and units must be the same as for the scores",
            )
        flat = counts.ravel()
        units = np.arange(flat.sum()) - np.repeat(np.cumsum(flat) - flat, flat)
        return cls(units, np.repeat(np.arange(len(flat)), flat))


def _projections(values: AnyArray, units: IntArray, vectors: npt.NDArray[np.float32]) -> Floats:
    """[embeddings] <E, v_b>, each row summed by itself: a text's score does not depend on its neighbours."""
    scores = np.empty(len(values))
    rows = max(1, _VALUES_AT_ONCE // max(1, values.shape[1]))
    half = values.dtype == np.float16
    widened = vectors * np.float32(2.0**112) if half else vectors
    for at in range(0, len(values), rows):
        part = slice(at, at + rows)
        embeddings = _shrunk(values[part]) if half else values[part].astype(np.float32)
        scores[part] = np.einsum("nd,nd->n", embeddings, widened[units[part]])
    return scores


def _shrunk(half: npt.NDArray[np.float16]) -> npt.NDArray[np.float32]:
    """Finite fp16 numbers times 2^-112, exactly: their bits at the places of float32, whose exponent counts from 112
    further down. Four times as fast as numpy's conversion, which would be most of the time of a score."""
    bits = half.view(np.int16).astype(np.int32)
    bits <<= 13
    bits &= np.int32(~0x70000000)  # what the sign was extended into
    return bits.view(np.float32)


def _has_words(values: AnyArray, scores: Floats) -> npt.NDArray[np.bool_]:
    """[embeddings] False for zero vectors, which stand for units without words. Only a zero score can be one."""
    has_words = np.ones(len(values), dtype=bool)
    suspects = np.flatnonzero(scores == 0)
    has_words[suspects] = values[suspects].any(axis=1)
    return has_words


def _evidence(
    i: int, features: Features, shares: Floats, counted: npt.NDArray[np.bool_], config: DenMarkConfig
) -> dict[str, tuple[Evidence, ...]]:
    """By size the units of text i and what each adds to S; together they are S."""
    mine = slice(int(features.offsets[i]), int(features.offsets[i + 1]))
    weights, used = shares[mine], counted[mine]
    evidence, at = {}, 0
    for size in config.sizes:
        starts, ends = unit_windows(int(features.lengths[i]), [size])
        evidence[str(size)] = tuple(
            Evidence(int(start), int(end), float(weights[at + b]), f"unit {b} of size {size}")
            for b, (start, end) in enumerate(zip(starts, ends, strict=True))
            if used[at + b]
        )
        at += len(starts)
    return evidence


def _largest_magnitude(values: AnyArray) -> int:
    """Bits of the largest fp16 entry without its sign: numbers are ordered as their bits are."""
    return int((values.astype(np.float16, copy=False).view(np.uint16) & 0x7FFF).max(initial=0))


class _WordTest:
    """Which ids have text of their own: not special, not blank."""

    def __init__(self, codec: TextCodec) -> None:
        self._has_text = lru_cache(maxsize=None)(lambda i: bool(codec.decode([i]).strip()))

    def __call__(self, ids: IntArray) -> npt.NDArray[np.bool_]:
        distinct, inverse = np.unique(ids, return_inverse=True)
        return np.array([self._has_text(i) for i in distinct.tolist()], dtype=bool)[inverse]
