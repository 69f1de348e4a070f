"""The published formulas of DLM-KGW, written down once more and differentiated by autograd: what the plugin is checked
against. In float64 and without a Fourier transform, so that its own rounding does not matter."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from wmbench_dlm_kgw.config import DlmKgwConfig
from wmbench_dlm_kgw.green import GreenMatrix, minhash_ranks


@dataclass(frozen=True)
class Published:
    """Boosts of a whole canvas."""

    config: DlmKgwConfig
    size: int
    green: GreenMatrix

    def boost(self, ids: Tensor, is_masked: Tensor, logits: Tensor, temperature: float) -> Tensor:
        """[L, V] from ids [L], mask [L] and logits [L, V]."""
        logits = logits.double().clone()
        logits[~is_masked] = -1e9
        logits[~is_masked, ids[~is_masked]] = 0.0
        base = p = (logits / temperature).softmax(-1)
        for _ in range(self.config.n_iter):
            p = p.detach().requires_grad_(True)
            (alpha,) = torch.autograd.grad(self.energy(p), p)
            if self.config.enforce_kl:
                factor = self.kl_factor(logits, base, alpha, temperature)
            else:
                factor = torch.tensor(self.config.delta / (len(self.config.convolution_kernel) + 1))
            p = ((logits + factor * alpha) / temperature).softmax(-1)
        return factor * alpha

    def energy(self, p: Tensor) -> Tensor:
        """Expected number of green tokens, over the top k hashes and tokens of each position."""
        kernel = self.config.convolution_kernel
        total = torch.zeros((), dtype=p.dtype)
        for t in range(max(0, -min(kernel)), len(p) - max(0, *kernel)):
            contexts = [p[t + offset] for offset in kernel]
            law = self.sum_law(contexts) if self.config.seeding_scheme == "sumhash" else self.min_law(contexts)
            tokens = p[t]
            if self.config.booster_only:
                law = law.detach()
            if self.config.greenify_only:
                tokens = tokens.detach()
            weight_h, h = law.topk(min(self.config.topk, len(law)))
            weight_v, v = tokens.topk(min(self.config.topk, len(tokens)))
            green = torch.from_numpy(self.green(h.numpy()[:, None], v.numpy()[None, :])).double()
            total = total + weight_h @ green @ weight_v
        return total

    def sum_law(self, contexts: list[Tensor]) -> Tensor:
        law = contexts[0]
        for other in contexts[1:]:
            table = law[:, None] * other[None, :]  # the law of a sum: diagonals of the joint law
            sums = torch.arange(len(law))[:, None] + torch.arange(len(other))[None, :]
            law = torch.zeros(len(law) + len(other) - 1, dtype=law.dtype).index_add(0, sums.flatten(), table.flatten())
        return law

    def min_law(self, contexts: list[Tensor]) -> Tensor:
        order = torch.from_numpy(minhash_ranks(self.size)).argsort()
        survival = torch.stack([1.0 - law[order].cumsum(0) for law in contexts]).prod(0)
        above = torch.cat([torch.ones(1, dtype=survival.dtype), survival])
        return above[:-1] - above[1:]

    def kl_factor(self, logits: Tensor, base: Tensor, alpha: Tensor, temperature: float) -> Tensor:
        variance = (base * (alpha - (base * alpha).sum(-1, keepdim=True)) ** 2).sum(-1, keepdim=True)
        low = torch.zeros_like(variance)
        high = (2 * torch.sqrt(2 * self.config.delta / (variance + 1e-8))).clamp_max(1e4)
        for _ in range(16):
            middle = (low + high) / 2
            q = ((logits + middle * alpha) / temperature).softmax(-1)
            divergence = torch.where(q > 0, q * (q / base).log(), 0.0).sum(-1, keepdim=True)
            too_far = divergence > self.config.delta
            low, high = torch.where(too_far, low, middle), torch.where(too_far, middle, high)
        return low
