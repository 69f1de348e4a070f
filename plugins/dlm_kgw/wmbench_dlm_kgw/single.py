"""One context token: the boost in closed form, from the top k tokens of each cell alone.

With o the offset and p the laws of the cells, the gradient of the expected number of green tokens is

    alpha_t[v] = 1[v in top k of p_t] ( sum_h p_{t+o}[h] G[h, v]  +  sum_u p_{t-o}[u] G[v, u] )

where h and u run over the top k of their cells: be green under one's own context, and make the next token green.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wmbench.types import IntArray
from wmbench_dlm_kgw.booster import Booster
from wmbench_dlm_kgw.green import Ids, token_hashes
from wmbench_dlm_kgw.neighbourhood import Neighbourhood
from wmbench_dlm_kgw.strength import boosts

Floats = npt.NDArray[np.float64]

_NEGLIGIBLE = 1e-9
"""Tokens of less weight are left out of a neighbour: k of them together move alpha by less than k times this. A sure
neighbour then costs k colours instead of k^2."""
_BLOCK = 128
_VALUES_AT_ONCE = 2**17
"""Logits whose softmax is taken at once on a CPU: it stays in the cache."""


@dataclass(frozen=True, slots=True)
class TopTokens:
    """The k most likely tokens of n distributions, and the mass of all others."""

    ids: IntArray
    """[n, k]"""
    law: Floats
    """[n, k + 1] their probabilities; the last column is the sum of all other tokens."""

    @classmethod
    def of(cls, logits: Tensor, k: int, temperature: float, dtype: torch.dtype) -> TopTokens:
        """Of softmax(logits / T), logits [n, V], taken in this precision."""
        ids = top_k(logits, k)
        rows = max(1, _VALUES_AT_ONCE // logits.shape[1]) if logits.device.type == "cpu" else max(1, len(logits))
        parts = zip(torch.split(logits, rows), torch.split(ids, rows), strict=True)
        top = torch.cat([(part.to(dtype) / temperature).softmax(-1).gather(1, at) for part, at in parts])
        law = top.cpu().numpy().astype(np.float64)
        others = np.maximum(1.0 - law.sum(-1, keepdims=True), 0.0)
        return cls(ids.cpu().numpy(), np.concatenate([law, others], axis=1))

    def boosted(self, boost: Floats, temperature: float) -> Floats:
        """Probabilities [n, k + 1] after adding to the logits. No boost is negative, so the top k stay the top k."""
        weights = self.law * np.exp((boost - boost.max(-1, keepdims=True)) / temperature)
        law: Floats = weights / weights.sum(-1, keepdims=True)
        return law


def top_k(logits: Tensor, k: int) -> Tensor:
    """Ids [n, k] of the largest of [n, V], in two stages: they lie in the k blocks with the largest maxima, or
    behind the last whole block."""
    blocks, size = logits.shape[1] // _BLOCK, logits.shape[1]
    if blocks <= 2 * k:
        return logits.topk(min(k, size), dim=-1).indices
    in_blocks = logits[:, : blocks * _BLOCK].reshape(len(logits), blocks, _BLOCK)
    chosen = in_blocks.amax(-1).topk(k, dim=-1, sorted=False).indices
    rows = torch.arange(len(logits), device=logits.device)[:, None]
    candidates = torch.cat([in_blocks[rows, chosen].flatten(1), logits[:, blocks * _BLOCK :]], dim=1)
    best = candidates.topk(k, dim=-1).indices
    block_of = torch.cat([chosen, torch.full_like(rows, blocks)], dim=1)  # what is left counts as one more block
    return block_of.gather(1, best // _BLOCK) * _BLOCK + best % _BLOCK


class SingleContext(Booster):
    """Boosts for a kernel of one offset and pairs that are never worth less than 0."""

    def boosted(self, cells: Neighbourhood, logits: Tensor, temperature: float) -> Tensor:
        opened = cells.open_among_masked
        # The search for a strength under a bound on the divergence magnifies small errors.
        dtype = torch.float64 if self.config.enforce_kl else logits.dtype
        top = TopTokens.of(logits[:, : self.size], self.config.topk, temperature, dtype)
        law = top.law
        for _ in range(self.config.n_iter - 1):
            boost = boosts(self.alpha(cells, cells.masked, top.ids, law), top.law, self.config, temperature)
            law = top.boosted(boost, temperature)
        boost = boosts(self.alpha(cells, cells.open, top.ids, law), top.law[opened], self.config, temperature)
        rows, ids, added = (torch.from_numpy(x).to(logits.device) for x in (opened, top.ids[opened], boost[:, :-1]))
        return logits.index_select(0, rows).scatter_add_(1, ids, added.to(logits.dtype))

    def alpha(self, cells: Neighbourhood, targets: IntArray, top_ids: IntArray, masked_law: Floats) -> Floats:
        """Gradients [targets, k + 1] at the targets' top k tokens (and zero for the others)."""
        ids, law = self._laws(cells, top_ids, masked_law)
        offset = self.config.convolution_kernel[0]
        # Pairs (context, coloured cell) that touch a target. A cell is the context of one cell and is coloured by one.
        coloured: IntArray = np.unique(np.concatenate([targets, cells.at(-offset, targets)]))
        coloured = coloured[coloured >= 0]
        context = cells.at(offset, coloured)
        coloured, context = coloured[context >= 0], context[context >= 0]
        matters = law > _NEGLIGIBLE
        matters[targets] = True
        needed = matters[context][:, :, None] & matters[coloured][:, None, :]
        green = self._green(token_hashes(ids[context], self.config, self.size), ids[coloured], needed)
        alpha = np.zeros((len(ids), ids.shape[1] + 1))
        if not self.config.greenify_only:
            alpha[coloured, :-1] += (law[context][:, None, :] @ green)[:, 0, :]
        if not self.config.booster_only:
            alpha[context, :-1] += (green @ law[coloured][:, :, None])[:, :, 0]
        gradients: Floats = alpha[targets]
        return gradients

    def _green(self, hashes: Ids, tokens: IntArray, needed: npt.NDArray[np.bool_]) -> Floats:
        """Colours [pairs, k context tokens, k coloured tokens] where needed, else 0."""
        if 2 * np.count_nonzero(needed) >= needed.size:  # a matrix of colours costs less per pair than single ones
            return (self.green(hashes[:, :, None], tokens[:, None, :]) * needed).astype(np.float64)
        green = np.zeros(needed.shape)
        pair, h, v = np.nonzero(needed)
        green[needed] = self.green(hashes[pair, h], tokens[pair, v])
        return green

    def _laws(self, cells: Neighbourhood, top_ids: IntArray, masked_law: Floats) -> tuple[IntArray, Floats]:
        """Top tokens and their probabilities [N, k] of all known cells."""
        k = top_ids.shape[1]
        ids = np.zeros((len(cells.codes), k), dtype=np.int64)
        law = np.zeros((len(cells.codes), k))
        ids[:, 0], law[:, 0] = cells.tokens, 1.0
        strange = cells.tokens >= self.size  # as published: uniform; which k of V equal tokens are the top is arbitrary
        ids[strange], law[strange] = np.arange(k), 1 / self.size
        ids[cells.masked], law[cells.masked] = top_ids, masked_law[:, :-1]
        return ids, law
