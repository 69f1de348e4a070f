"""Several context tokens: the law of the hash over the whole vocabulary, and its derivative, without autograd.

    J = sum_s sum_{h in top k of law_s} sum_{u in top k of p_s} law_s[h] p_s[u] G[h, u],      alpha_t[v] = dJ / dp_t[v]

Exact in float64 (the published code uses float32, whose noise of 1e-7 reorders hashes below that probability). Every
array is [positions, V]: this is for ablations, `single.py` is what the papers run.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wmbench.types import IntArray
from wmbench_dlm_kgw.booster import Booster
from wmbench_dlm_kgw.green import minhash_ranks
from wmbench_dlm_kgw.neighbourhood import Neighbourhood
from wmbench_dlm_kgw.strength import boosts

Floats = npt.NDArray[np.float64]


class SumLaw:
    """Law of the sum of independent ids, by Fourier transform: the transform of a sum is a product."""

    def __init__(self, laws: Floats) -> None:
        """Laws [n, context size, V] of the context tokens."""
        self._hashes = laws.shape[1] * laws.shape[2]
        self._length = 1 << (self._hashes - 1).bit_length()  # long enough that nothing wraps around
        self._size = laws.shape[2]
        self._transforms = np.fft.rfft(laws, self._length)

    def hashes(self) -> Floats:
        """[n, context size * V]"""
        return np.fft.irfft(self._transforms.prod(1), self._length)[:, : self._hashes]

    def backward(self, j: int, gradient: Floats) -> Floats:
        """Derivative [n, V] by the law of context token j, given that by the law of the hash [n, hashes]:
        sum_h gradient[h] P(the others sum to h - v), a correlation."""
        others = np.delete(self._transforms, j, axis=1).prod(1)
        return np.fft.irfft(np.fft.rfft(gradient, self._length) * others.conj(), self._length)[:, : self._size]


class MinLaw:
    """Law of the least rank. P(min > i) is the product of the survival functions S_j(i) = 1 - (mass of ranks <= i)."""

    def __init__(self, laws: Floats) -> None:
        self._ranks = minhash_ranks(laws.shape[2])
        ranked = laws[:, :, np.argsort(self._ranks)]
        self._survival = 1.0 - ranked.cumsum(-1)

    def hashes(self) -> Floats:
        """[n, V]"""
        return -np.diff(self._survival.prod(1), axis=1, prepend=1.0)

    def backward(self, j: int, gradient: Floats) -> Floats:
        """More mass at rank r lowers S_j(i) and P(min > i) for all i >= r; and law[h] = P(min > h-1) - P(min > h)."""
        others = np.delete(self._survival, j, axis=1).prod(1)
        by_tail = -np.diff(gradient, axis=1, append=0.0) * others  # -dJ/dS_j(i): it moves law[i] and law[i+1]
        by_rank = by_tail[:, ::-1].cumsum(1)[:, ::-1]
        return by_rank[:, self._ranks]


class SeveralContexts(Booster):
    """Boosts for a kernel of any number of offsets."""

    def boosted(self, cells: Neighbourhood, logits: Tensor, temperature: float) -> Tensor:
        opened = cells.open_among_masked
        scaled = logits[:, : self.size].cpu().numpy().astype(np.float64) / temperature
        base = _softmax(scaled)
        boost = np.zeros_like(base)
        for _ in range(self.config.n_iter):
            law = self._laws(cells, _softmax(scaled + boost / temperature))
            boost = boosts(self.alpha(cells, law)[cells.masked], base, self.config, temperature)
        result = logits[torch.from_numpy(opened).to(logits.device)]
        result[:, : self.size] += torch.from_numpy(boost[opened]).to(logits)
        return result

    def alpha(self, cells: Neighbourhood, law: Floats) -> Floats:
        """Gradients [N, V] at all known cells from their laws [N, V]."""
        every = np.arange(len(cells.codes))
        contexts = np.stack([cells.at(offset, every) for offset in self.config.convolution_kernel], axis=1)
        coloured = np.flatnonzero((contexts >= 0).all(1))  # cells with a full context
        contexts = contexts[coloured]
        context_law = (SumLaw if self.config.seeding_scheme == "sumhash" else MinLaw)(law[contexts])
        hash_law = context_law.hashes()
        hashes, tokens = _top(hash_law, self.config.topk), _top(law[coloured], self.config.topk)
        rows = np.arange(len(coloured))[:, None]
        green = self.green(hashes[:, :, None], tokens[:, None, :]).astype(np.float64)  # [n, hashes, tokens]
        alpha = np.zeros_like(law)
        if not self.config.greenify_only:
            np.add.at(alpha, (coloured[:, None], tokens), np.einsum("nh,nhv->nv", hash_law[rows, hashes], green))
        if not self.config.booster_only:
            gradient = np.zeros_like(hash_law)
            gradient[rows, hashes] = np.einsum("nv,nhv->nh", law[coloured][rows, tokens], green)
            for j in range(contexts.shape[1]):
                np.add.at(alpha, contexts[:, j], context_law.backward(j, gradient))
        return alpha

    def _laws(self, cells: Neighbourhood, masked_law: Floats) -> Floats:
        """Laws [N, V] of all known cells; an id beyond the vocabulary counts as unknown, as published."""
        law = np.zeros((len(cells.codes), self.size))
        strange = cells.tokens >= self.size
        law[strange] = 1 / self.size
        law[np.flatnonzero(~strange), cells.tokens[~strange]] = 1.0
        law[cells.masked] = masked_law
        return law


def _top(values: Floats, k: int) -> IntArray:
    """Indices [n, k] of the largest values of each row, in no order."""
    k = min(k, values.shape[1])
    return np.argpartition(values, values.shape[1] - k, axis=1)[:, values.shape[1] - k :]


def _softmax(scaled: Floats) -> Floats:
    weights = np.exp(scaled - scaled.max(-1, keepdims=True))
    law: Floats = weights / weights.sum(-1, keepdims=True)
    return law
