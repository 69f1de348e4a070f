"""Detection: count green tokens among the distinct (context, token) tuples of a text."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from wmbench import hookimpl
from wmbench.keys import SecretKey
from wmbench.types import Evidence, Features, IntArray, SchemeContext, TextContext, Verdict, Views
from wmbench_dlm_kgw.config import DlmKgwConfig
from wmbench_dlm_kgw.green import Ids, context_hashes, green_matrix

Floats = npt.NDArray[np.float64]

SMALLEST_P = 1e-300
"""Reported in place of smaller p-values, which float64 could not tell from zero."""


@dataclass(frozen=True, slots=True)
class GreenViews(Views):
    """Views that remember the counts behind them, for the exact p-value."""

    green: IntArray | None = None
    """[n] green tokens."""
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


def normal_z(green: IntArray, scored: IntArray, gamma: float) -> Floats:
    """Standardised green count; 0 where nothing could be scored."""
    z: Floats = (green - gamma * scored) / np.sqrt(np.maximum(scored, 1) * gamma * (1 - gamma))
    return z


def exact_p(green: IntArray, scored: IntArray, gamma: float) -> Floats:
    """P(Binomial(scored, gamma) >= green); 1 where nothing could be scored."""
    from scipy.stats import binom

    return np.clip(np.asarray(binom.sf(green - 1, scored, gamma), np.float64), SMALLEST_P, 1.0)


class GreenDetector:
    """The detection hooks."""

    def __init__(self, config: DlmKgwConfig, context: SchemeContext) -> None:
        self.config = config
        self.size = context.codec.size

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        """One view: z, or -ln p when `p_value` is exact. All texts are coloured in one call."""
        is_green = green_matrix(self.config, self.size, key)
        parts = [
            scored_positions(features.of(i).astype(np.int64), self.config.convolution_kernel)
            for i in range(len(features))
        ]
        scored = np.array([len(positions) for positions, _ in parts], dtype=np.int64)
        if not scored.sum():
            green = np.zeros(0, dtype=bool)
        else:
            tokens = np.concatenate([features.of(i)[positions] for i, (positions, _) in enumerate(parts)])
            green = is_green(context_hashes(np.concatenate([c for _, c in parts]), self.config, self.size), tokens)
        counts = np.bincount(np.repeat(np.arange(len(parts)), scored), green, len(parts)).astype(np.int64)
        if self.config.p_value == "exact":
            name, values = "-ln p", 0.0 - np.log(exact_p(counts, scored, self.config.gamma))
        else:
            name, values = "z", normal_z(counts, scored, self.config.gamma)
        evidence = self._evidence(name, parts, green) if context.evidence else None
        return GreenViews((name,), values[:, None], evidence, counts, scored)

    def _evidence(
        self, name: str, parts: Sequence[tuple[IntArray, Ids]], green: npt.NDArray[np.bool_]
    ) -> tuple[dict[str, tuple[Evidence, ...]], ...]:
        """Every counted token, and how far it moves the green count from its expectation."""
        gamma, colours = self.config.gamma, iter(green.tolist())
        return tuple(
            {
                name: tuple(
                    Evidence(t, t + 1, 1 - gamma, "green") if next(colours) else Evidence(t, t + 1, -gamma, "red")
                    for t in positions.tolist()
                )
            }
            for positions, _ in parts
        )

    @hookimpl
    def detect(self, views: Views, context: TextContext) -> list[Verdict] | None:
        """The binomial law, if asked for; otherwise the host's calibration decides."""
        if self.config.p_value == "empirical":
            return None
        verdicts = []
        for i, score in enumerate(views.scores[:, 0].tolist()):
            p = float(np.clip(np.exp(-score), SMALLEST_P, 1.0))
            evidence = views.evidence[i][views.names[0]] if views.evidence is not None else ()
            method = "exact binomial over distinct n-grams"
            verdicts.append(Verdict(p, score, p <= context.alpha, context.alpha, views.names[0], method, evidence))
        return verdicts

    @hookimpl(wrapper=True, specname="detect")
    def add_counts(self, views: Views) -> Generator[None, list[Verdict], list[Verdict]]:
        """Whoever decided: the counts, z and the exact p stand beside the verdict."""
        verdicts = yield
        if not isinstance(views, GreenViews) or views.green is None or views.scored is None:
            return verdicts
        z = normal_z(views.green, views.scored, self.config.gamma)
        p = exact_p(views.green, views.scored, self.config.gamma)
        rows = zip(verdicts, views.green.tolist(), views.scored.tolist(), z.tolist(), p.tolist(), strict=True)
        return [
            replace(verdict, details={**verdict.details, "green": k, "scored": n, "z": z_text, "exact_p": p_text})
            for verdict, k, n, z_text, p_text in rows
        ]
