"""Detection: count green tokens among the distinct (context, token) tuples of a text."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wmbench import hookimpl
from wmbench.keys import SecretKey
from wmbench.types import Evidence, Features, IntArray, SchemeContext, TextContext, Verdict, Views
from wmbench_dlm_kgw.config import DlmKgwConfig
from wmbench_dlm_kgw.green import Ids, Worths, context_hashes, green_matrix
from wmbench_dlm_kgw.laws import SMALLEST_P, moments, normal_z, tail_p

_METHODS = {
    "bernoulli": "exact binomial over distinct n-grams",
    "gaussian": "normal law over distinct n-grams",
    "lognormal": "approximate log-normal law over distinct n-grams",
}


@dataclass(frozen=True, slots=True)
class GreenViews(Views):
    """Views that remember the counts behind them, for the exact p-value."""

    green: npt.NDArray[Any] | None = None
    """[n] green tokens; sums of real numbers where pairs are no coins."""
    scored: IntArray | None = None
    """[n] tokens counted."""


def scored_positions(ids: Ids, kernel: tuple[int, ...]) -> tuple[IntArray, Ids]:
    """Positions [m] whose whole context lies in the text, each distinct (context, token) tuple at its first occurrence
    only, and their contexts [m, context size]."""
    positions = np.arange(max(0, -min(kernel)), len(ids) - max(0, *kernel))
    contexts = ids[positions[:, None] + np.array(kernel)]
    tuples = np.zeros(len(positions), dtype=np.int64)
    for column in (*contexts.T, ids[positions]):
        # Renumbered after every column, so that the numbers stay below len(ids) times the vocabulary.
        tuples = np.unique(tuples * (int(ids.max(initial=0)) + 1) + column, return_inverse=True)[1]
    first = np.sort(np.unique(tuples, return_index=True)[1])
    return positions[first], contexts[first]


class GreenDetector:
    """The detection hooks."""

    def __init__(self, config: DlmKgwConfig, context: SchemeContext) -> None:
        self.config = config
        self.size = context.codec.size

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        """One view: z, or -ln p when `p_value` is exact. All texts are coloured in one call."""
        worth, config = green_matrix(self.config, self.size, key), self.config
        parts = [
            scored_positions(features.of(i).astype(np.int64), config.convolution_kernel) for i in range(len(features))
        ]
        scored = np.array([len(positions) for positions, _ in parts], dtype=np.int64)
        if not scored.sum():
            worths = np.zeros(0, dtype=bool)
        else:
            tokens = np.concatenate([features.of(i)[positions] for i, (positions, _) in enumerate(parts)])
            worths = worth(context_hashes(np.concatenate([c for _, c in parts]), config, self.size), tokens)
        totals: npt.NDArray[Any] = np.bincount(np.repeat(np.arange(len(parts)), scored), worths, len(parts))
        if config.greenlist_type == "bernoulli":
            totals = totals.astype(np.int64)
        if config.p_value == "exact":
            name, values = "-ln p", 0.0 - np.log(tail_p(totals, scored, config))
        else:
            name, values = "z", normal_z(totals, scored, config)
        evidence = self._evidence(name, parts, worths) if context.evidence else None
        return GreenViews((name,), values[:, None], evidence, totals, scored)

    def _evidence(
        self, name: str, parts: Sequence[tuple[IntArray, Ids]], worths: Worths
    ) -> tuple[dict[str, tuple[Evidence, ...]], ...]:
        """Every counted token, and how far it moves the sum from its expectation."""
        mean, ends = moments(self.config)[0], np.cumsum([len(positions) for positions, _ in parts], dtype=np.int64)
        return tuple(
            {
                name: tuple(
                    Evidence(t, t + 1, value - mean, "green" if value > mean else "red")
                    for t, value in zip(positions.tolist(), own.tolist(), strict=True)
                )
            }
            for (positions, _), own in zip(parts, np.split(worths, ends)[: len(parts)], strict=True)
        )

    @hookimpl
    def detect(self, views: Views, context: TextContext) -> list[Verdict] | None:
        """The analytic law, if asked for; otherwise the host's calibration decides."""
        if self.config.p_value == "empirical":
            return None
        verdicts = []
        for i, score in enumerate(views.scores[:, 0].tolist()):
            p = float(np.clip(np.exp(-score), SMALLEST_P, 1.0))
            evidence = views.evidence[i][views.names[0]] if views.evidence is not None else ()
            method = _METHODS[self.config.greenlist_type]
            verdicts.append(Verdict(p, score, p <= context.alpha, context.alpha, views.names[0], method, evidence))
        return verdicts

    @hookimpl(wrapper=True, specname="detect")
    def add_counts(self, views: Views) -> Generator[None, list[Verdict], list[Verdict]]:
        """Whoever decided: the counts, z and the exact p stand beside the verdict."""
        verdicts = yield
        if not isinstance(views, GreenViews) or views.green is None or views.scored is None:
            return verdicts
        z = normal_z(views.green, views.scored, self.config)
        p = tail_p(views.green, views.scored, self.config)
        rows = zip(verdicts, views.green.tolist(), views.scored.tolist(), z.tolist(), p.tolist(), strict=True)
        return [
            replace(verdict, details={**verdict.details, "green": k, "scored": n, "z": z_text, "exact_p": p_text})
            for verdict, k, n, z_text, p_text in rows
        ]
