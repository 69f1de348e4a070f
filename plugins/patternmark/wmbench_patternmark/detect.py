"""Detection: colours of the tokens, number of windows that are a pattern, and how unlikely so many are."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from wmbench import hookimpl
from wmbench.keys import SecretKey
from wmbench.types import Evidence, Features, IntArray, SchemeContext, TextContext, Verdict, Views
from wmbench_patternmark.config import PatternMarkConfig
from wmbench_patternmark.keys import Colours, token_colours
from wmbench_patternmark.null import null_tail, pattern_codes

VIEW = "-ln p"
SMALLEST_P = 1e-300
"""Reported in place of smaller p-values, which float64 could not tell from zero."""


def pattern_windows(ids: npt.NDArray[np.int64], colour_of: Colours, config: PatternMarkConfig) -> IntArray:
    """First tokens of the windows that are a pattern, counted among the tokens that have a colour.

    As published: ids beyond the vocabulary are dropped, then the first len(ids) - m windows are looked at (as many of
    them as are left), so that without dropped ids the very last window is not.
    """
    length = config.pattern_length
    colours = colour_of[ids[ids < len(colour_of)]].astype(np.int64)
    windows = min(len(ids) - length, len(colours) - length + 1)
    if windows <= 0:
        return np.empty(0, dtype=np.int64)
    codes = np.zeros(windows, dtype=np.int64)
    for j in range(length):
        codes = codes * config.colours + colours[j : j + windows]
    return np.flatnonzero(np.isin(codes, pattern_codes(config.patterns, config.colours)))


class PatternDetector:
    """The detection hooks."""

    def __init__(self, config: PatternMarkConfig, context: SchemeContext) -> None:
        self.config = config
        self.size = context.codec.size

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        """One view: -ln P(so many patterns or more in random colours). 0 for a text too short for a window."""
        colour_of, config = token_colours(self.config, self.size, key), self.config
        scores, evidence = np.empty((len(features), 1)), []
        for i in range(len(features)):
            ids = features.of(i)[: config.max_tokens].astype(np.int64)
            hits = pattern_windows(ids, colour_of, config)
            p = null_tail(len(ids), config.patterns, config.colours)[len(hits)]
            scores[i] = 0.0 - np.log(np.clip(p, SMALLEST_P, 1.0))
            if context.evidence:
                evidence.append({VIEW: _evidence(ids, hits, config.pattern_length, self.size)})
        return Views((VIEW,), scores, tuple(evidence) if context.evidence else None)

    @hookimpl
    def detect(self, views: Views, context: TextContext) -> list[Verdict] | None:
        """The exact law, if asked for; otherwise the host's calibration decides."""
        if self.config.p_value == "empirical":
            return None
        method = "exact law of the pattern count"
        return [
            Verdict(
                p, score, p <= context.alpha, context.alpha, VIEW, method,
                views.evidence[i][VIEW] if views.evidence is not None else (),
            )
            for i, (p, score) in enumerate(zip(_p_values(views), views.scores[:, 0].tolist(), strict=True))
        ]  # fmt: skip

    @hookimpl(wrapper=True, specname="detect")
    def add_exact_p(self, views: Views) -> Generator[None, list[Verdict], list[Verdict]]:
        """Whoever decided: the exact p stands beside the verdict."""
        verdicts = yield
        return [
            replace(verdict, details={**verdict.details, "exact_p": p})
            for verdict, p in zip(verdicts, _p_values(views), strict=True)
        ]


def _p_values(views: Views) -> list[float]:
    p: list[float] = np.clip(np.exp(-views.scores[:, 0]), SMALLEST_P, 1.0).tolist()
    return p


def _evidence(ids: IntArray, hits: IntArray, length: int, size: int) -> tuple[Evidence, ...]:
    """Every pattern found, as a span of the text's tokens."""
    position = np.flatnonzero(ids < size)
    return tuple(Evidence(int(position[h]), int(position[h + length - 1]) + 1, 1.0, "pattern") for h in hits.tolist())
