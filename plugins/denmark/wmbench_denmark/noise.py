"""What common random numbers do to the comparison of candidates.

A candidate wins because its rollouts score higher than another's. The noise of that comparison is the variance of the
difference of two scores over rollouts; the fewer tokens differ between the two for no reason, the smaller it is. Ways
to draw the rollouts of a step, each from the same distributions:

    independent   every candidate has uniforms of its own
    common        rollout i uses the same uniforms for all candidates, tokens in vocabulary order (DenMark)
    own order     the same uniforms; tokens sorted by the candidate's own probabilities before the inverse CDF
    base order    the same uniforms; tokens sorted by the probabilities of the base distribution, for all candidates
    published     the authors' code: rollout i adds the same Gumbel noise to the logits of all candidates
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wmbench.runtime.lookahead import Edit
from wmbench.runtime.sampling import inverse_cdf, tempered
from wmbench.runtime.step import Cells, Step
from wmbench.types import Commit, IntArray
from wmbench_denmark import published_noise
from wmbench_denmark.candidates import ActiveUnit, Candidates
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.decode import Decoder, commit_of
from wmbench_denmark.rollouts import deduplicate, rollout_temperature

Floats = npt.NDArray[np.float64]
WAYS = ("independent", "common", "own order", "base order", "published")


@dataclass(frozen=True, slots=True)
class Noise:
    """One step of one unit."""

    sample: str
    masks: int
    """Left in the unit before the step."""
    variance: dict[str, float]
    """By way: variance over rollouts of the difference to the first candidate, averaged over the others."""
    spread: float
    """Variance of the candidates' mean scores: what there is to tell apart."""


class NoiseMeter:
    """Decides as DenMark does; at every n-th step it looks at the noise first."""

    def __init__(self, decoder: Decoder, config: DenMarkConfig, rollouts: int = 64, every: int = 5) -> None:
        self._decoder = decoder
        self._config = config
        self._rollouts = rollouts
        self._every = every
        self.found: list[Noise] = []

    def decide(self, step: Step) -> Commit:
        candidates, best = self._decoder.evaluate(step)
        for c in candidates:
            row = step.rows[c.unit.row]
            if row.step % self._every == 0 and len(c.unit.masked) > c.unit.count:
                firsts, _ = deduplicate(c.filled(row.canvas))
                if len(firsts) > 1:
                    self.found.append(self._measure(step, c, firsts))
        return commit_of(candidates, best)

    def _measure(self, step: Step, c: Candidates, firsts: IntArray) -> Noise:
        unit, row = c.unit, step.rows[c.unit.row]
        filled = c.filled(row.canvas)[firsts]  # [D, length]
        rests = [unit.first + np.flatnonzero(ids == row.mask_id) for ids in filled]
        edits = [Edit(unit.row, c.columns[k], c.tokens[k]) for k in firsts]
        lookahead = dict(step.lookahead(edits).logits(rests))
        order = self._base_order(step, c)
        uniforms = row.uniforms("noise", (len(firsts), unit.length, self._rollouts), lane=unit.number)
        published = self._draw_as_published(step, unit, [lookahead[d] for d in range(len(rests))], rests)
        scores = {}
        for way in WAYS:
            units = []
            for d, rest in enumerate(rests):
                if way == "published":
                    tokens = published[d]
                else:
                    u = uniforms[d if way == "independent" else 0, rest - unit.first]
                    tokens = self._draw(way, lookahead[d], u, order[rest - unit.first], step)
                ids = np.tile(filled[d], (self._rollouts, 1))
                ids[:, rest - unit.first] = tokens.T
                units += list(ids)
            numbers = np.full(len(units), unit.number)
            scores[way] = self._decoder.scorer.each(numbers, units).reshape(len(firsts), self._rollouts)
        variance = {way: float((s[1:] - s[0]).var(axis=1, ddof=1).mean()) for way, s in scores.items()}
        spread = float(scores["independent"].mean(axis=1).var(ddof=1))
        return Noise(row.sample.id, len(unit.masked), variance, spread)

    def _draw_as_published(
        self, step: Step, unit: ActiveUnit, logits: Sequence[Tensor], rests: Sequence[IntArray]
    ) -> list[IntArray]:
        """Tokens [rest, R] of every candidate. One rollout at a time: its noise is as large as the unit's logits."""
        seed = published_noise.step_seed(unit.number, -(-(unit.length - len(unit.masked)) // unit.count))
        temperature = rollout_temperature(step, self._config)
        tokens = [np.empty((len(rest), self._rollouts), dtype=np.int64) for rest in rests]
        for i in range(self._rollouts):
            u = published_noise.uniforms(published_noise.noise_seed(seed, i), unit.length, logits[0].shape[1])
            for drawn, own, rest in zip(tokens, logits, rests, strict=True):
                drawn[:, i] = published_noise.gumbel_max(own, u[rest - unit.first], temperature).cpu().numpy()
        return tokens

    def _base_order(self, step: Step, c: Candidates) -> Tensor:
        """[length, V] token ids by falling base probability; rows of filled columns are not used."""
        unit = c.unit
        logits = step.logits(Cells(np.full(len(unit.masked), unit.row), unit.masked))
        order = torch.zeros(unit.length, logits.shape[1], dtype=torch.int64, device=logits.device)
        places = torch.from_numpy(unit.masked - unit.first).to(logits.device)
        order[places] = logits.argsort(dim=-1, descending=True, stable=True)
        return order

    def _draw(self, way: str, logits: Tensor, uniforms: Floats, base_order: Tensor, step: Step) -> IntArray:
        """Tokens [rest, R]."""
        decoding, temperature = step.decoding, rollout_temperature(step, self._config)
        u = torch.from_numpy(uniforms).to(logits.device)
        if temperature == 0.0:
            return np.repeat(logits.argmax(-1, keepdim=True).cpu().numpy(), u.shape[1], axis=1)
        p = tempered(logits, temperature, decoding.top_k, decoding.top_p)
        if way in ("independent", "common"):
            return inverse_cdf(p, u).cpu().numpy()
        order = base_order if way == "base order" else p.argsort(dim=-1, descending=True, stable=True)
        return order.gather(1, inverse_cdf(p.gather(1, order), u)).cpu().numpy()


def summary(found: Sequence[Noise], seed: int = 0, resamples: int = 2000) -> dict[str, Any]:
    """Mean variance of every way, and its ratio to independent draws with a bootstrap interval over prompts."""
    samples, owner = np.unique([noise.sample for noise in found], return_inverse=True)
    counts = np.bincount(owner)
    sums = {way: np.bincount(owner, weights=[noise.variance[way] for noise in found]) for way in WAYS}
    draws = np.random.Generator(np.random.Philox(seed)).integers(len(samples), size=(resamples, len(samples)))
    resampled = {way: total[draws].sum(axis=1) for way, total in sums.items()}
    ways = {}
    for way in WAYS:
        ratio = resampled[way] / np.maximum(resampled["independent"], 1e-300)
        low, high = np.quantile(ratio, [0.025, 0.975])
        ways[way] = {
            "variance": float(sums[way].sum() / counts.sum()),
            "ratio": float(sums[way].sum() / max(sums["independent"].sum(), 1e-300)),
            "low": float(low),
            "high": float(high),
        }
    return {
        "prompts": len(samples),
        "steps": len(found),
        "ways": ways,
        "spread_of_candidates": float(np.mean([noise.spread for noise in found])),
        "interval": f"95% percentile bootstrap over prompts, {resamples} resamples",
        "steps_measured": [
            {"sample": n.sample, "masks": n.masks, "variance": n.variance, "spread": n.spread} for n in found
        ],
    }


def by_masks(found: Sequence[Noise]) -> list[dict[str, Any]]:
    """Mean variance by masks left and way, for a chart."""
    rows = []
    for masks in sorted({noise.masks for noise in found}):
        here = [noise for noise in found if noise.masks == masks]
        rows += [{"masks": masks, "way": w, "variance": float(np.mean([n.variance[w] for n in here]))} for w in WAYS]
    return rows
