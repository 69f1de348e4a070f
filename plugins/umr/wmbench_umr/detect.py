"""Finding the mark: pairs of neighbouring tokens that hit the bitmap, and the message they vote for."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from wmbench import hookimpl
from wmbench.detection import Calibration
from wmbench.errors import ConfigError
from wmbench.keys import SecretKey
from wmbench.types import AnyArray, Evidence, Features, IntArray, SchemeContext, TextContext, Verdict, Views
from wmbench_umr.bitmap import Bitmap, make_bitmap
from wmbench_umr.config import UmrConfig

Flags = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
NO_VOTE, TIE = -1, -2
SIGNS = {0: "0", 1: "1", NO_VOTE: "?", TIE: "-"}
"""How bits are written, as in the published scorer."""
_VIEW, _MESSAGE = "z", "message"


@dataclass(frozen=True, slots=True)
class PairViews(Views):
    """Views that remember how many pairs they are made of: z is 0 without a pair, and by chance."""

    pairs: IntArray | None = None
    """[n]"""


def z_score(hits: Flags, chances: Floats | float) -> float:
    """Hits above chance in standard deviations, for independent pairs; 0 without a pair."""
    p = np.broadcast_to(chances, hits.shape)
    return float(hits.sum() - p.sum()) / _spread(p) if len(hits) else 0.0


def _spread(chances: Floats) -> float:
    """Standard deviation of the number of hits."""
    return math.sqrt((chances * (1 - chances)).sum())


def message_votes(hits: Flags, bit_index: AnyArray, targets: Flags, length: int) -> IntArray:
    """Votes [length, 2] for a 0 and for a 1 at every message bit: a pair votes for its base partition."""
    votes = np.zeros((length, 2), dtype=np.int64)
    np.add.at(votes, (bit_index, (hits == targets).astype(np.int64)), 1)
    return votes


def recovered_bits(votes: IntArray) -> list[int]:
    """The majority at every bit; NO_VOTE or TIE where there is none."""
    undecided = np.where(votes.sum(axis=1) == 0, NO_VOTE, TIE)
    majority = np.where(votes[:, 0] == votes[:, 1], undecided, votes[:, 1] > votes[:, 0])
    return [int(bit) for bit in majority]


class UmrDetector:
    """Scores of texts, by the first `scored_tokens` ids; the first id is only a context."""

    def __init__(self, config: UmrConfig, context: SchemeContext) -> None:
        self.config = config
        self._key = context.key
        self._size = context.codec.size

    def bitmap(self, key: SecretKey | None) -> Bitmap:
        return make_bitmap(self.config, key, self._size)

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        bitmap = self.bitmap(key)
        texts = [features.of(i)[: self.config.scored_tokens] for i in range(len(features))]
        empty = np.empty(0, dtype=np.int64)
        previous = np.concatenate([empty, *(ids[:-1] for ids in texts)])
        current = np.concatenate([empty, *(ids[1:] for ids in texts)])
        ends = np.cumsum([max(0, len(ids) - 1) for ids in texts])
        hits = np.split(bitmap.hits(previous, current), ends)[: len(texts)]
        chances = np.split(bitmap.chances(previous), ends)[: len(texts)]
        scores = np.array([z_score(*pairs) for pairs in zip(hits, chances, strict=True)]).reshape(-1, 1)
        evidence = None
        if context.evidence:
            contexts = np.split(previous, ends)[: len(texts)]
            evidence = tuple(
                {_VIEW: self._runs(flags, chance), _MESSAGE: self._message(bitmap, ids, flags)}
                for ids, flags, chance in zip(contexts, hits, chances, strict=True)
            )
        return PairViews((_VIEW,), scores, evidence, np.array([len(flags) for flags in hits], dtype=np.int64))

    @hookimpl
    def detect(self, views: Views, calibration: Calibration | None, context: TextContext) -> list[Verdict]:
        """Ranked by z. p as configured; the normal p and, with evidence, the message are among the details."""
        normal = np.maximum(ndtr(-views.scores[:, 0]), 1e-300)
        if isinstance(views, PairViews) and views.pairs is not None:
            normal[views.pairs == 0] = 1.0
        p_values, method = normal, "normal law of z"
        if self.config.p_value == "empirical":
            if calibration is None:
                raise ConfigError("an empirical p-value needs a calibration", hint="calibrate, or set p_value=normal")
            calibration.require(context.alpha)
            calibration.require_views(views.names)
            p_values, method = calibration.scan(views.scores).p_scan, "empirical add-one"
        verdicts = []
        for i, (p, z) in enumerate(zip(p_values.tolist(), views.scores[:, 0].tolist(), strict=True)):
            found = views.evidence[i] if views.evidence is not None else {}
            details = {"z": z, "p_normal": float(normal[i])}
            if _MESSAGE in found:
                details["message"] = "".join(e.label[0] for e in found[_MESSAGE])
                details["votes"] = [e.label for e in found[_MESSAGE]]
            evidence = found.get(_VIEW, ())
            verdicts.append(Verdict(p, z, p <= context.alpha, context.alpha, _VIEW, method, evidence, details))
        return verdicts

    @staticmethod
    def _runs(hits: Flags, chances: Floats) -> tuple[Evidence, ...]:
        """Runs of hits and of misses; their weights add up to z. Pair i ends in token i + 1."""
        weights = (hits - chances) / _spread(chances)
        borders = [0, *(np.flatnonzero(np.diff(hits)) + 1).tolist(), len(hits)]
        return tuple(
            Evidence(a + 1, b + 1, float(weights[a:b].sum()), "hits" if hits[a] else "misses")
            for a, b in itertools.pairwise(borders)
            if b > a
        )

    def _message(self, bitmap: Bitmap, previous: IntArray, hits: Flags) -> tuple[Evidence, ...]:
        """One item per message bit (its span is the bit's place): votes for a 1 minus votes for a 0. Its label begins
        with the sign of the bit."""
        length = len(bitmap.message)
        votes = message_votes(hits, bitmap.bit_index[previous], bitmap.target(previous), length)
        return tuple(
            Evidence(b, b + 1, float(ones - zeros), f"{SIGNS[bit]}: {ones} of {zeros + ones} votes for 1")
            for b, (bit, (zeros, ones)) in enumerate(zip(recovered_bits(votes), votes.tolist(), strict=True))
        )
