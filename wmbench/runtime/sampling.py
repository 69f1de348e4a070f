"""Token draws by inverse CDF, and the confidences by which positions are ranked.

One uniform per draw, cumulative sums in float64: R draws from one distribution cost one cumulative sum, and the
same uniform gives the same token at any batch size.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

Confidence = Literal["probability", "margin", "entropy"]

_VALUES_AT_ONCE = 2**18
"""Weights held at once on a CPU: with their float64 sums they stay in its cache, which makes draws 5 times as fast."""
_LARGE_NUCLEUS = 64


def tempered(logits: Tensor, temperature: float, top_k: int | None = None, top_p: float | None = None) -> Tensor:
    """Probabilities [n, V] in float64 after temperature, then nucleus, then top-k filtering."""
    probabilities = (logits.double() / temperature).softmax(-1)
    if top_k is None and top_p is None:
        return probabilities
    kept = _filtered(probabilities, top_k, top_p)
    return kept / kept.sum(-1, keepdim=True)


def _filtered(weights: Tensor, top_k: int | None, top_p: float | None) -> Tensor:
    """Weights [n, V] with zeros outside of the nucleus and the top k; each row may have a factor of its own."""
    if top_p is not None and top_p < 1.0:
        weights = weights.masked_fill(weights < _nucleus_floor(weights, top_p), 0.0)
    if top_k is not None and top_k < weights.shape[-1]:
        kept = weights.topk(top_k, dim=-1)
        weights = torch.zeros_like(weights).scatter(-1, kept.indices, kept.values)
    return weights


def _nucleus_floor(weights: Tensor, top_p: float) -> Tensor:
    """The smallest weight [n, 1] inside of the nucleus: tokens are in it until those before them hold `top_p`.

    Nearly always it has a few dozen tokens, and to find those is many times faster than to sort a vocabulary.
    """
    total = weights.sum(-1, keepdim=True, dtype=torch.float64)
    width = weights.shape[-1]
    for few in (min(_LARGE_NUCLEUS, width), width):
        best = weights.topk(few, dim=-1).values
        mass = best.double()
        inside = mass.cumsum(-1) - mass <= top_p * total
        if not inside[..., -1].any():
            break
    return best.masked_fill(~inside, torch.inf).amin(-1, keepdim=True)


def inverse_cdf(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """Token ids [n, R] from probabilities [n, V] and uniforms [n, R]. A token of probability zero is never drawn.

    Each row of probabilities may have a factor of its own.
    """
    cdf = probabilities.cumsum(-1, dtype=torch.float64)
    total = cdf[..., -1:]
    # u * total may round up to total; the last attainable value below it keeps the index inside the support.
    target = torch.minimum(uniforms * total, torch.nextafter(total, torch.zeros_like(total)))
    return torch.searchsorted(cdf, target.contiguous(), right=True)


def weights(logits: Tensor, temperature: float, top_k: int | None = None, top_p: float | None = None) -> Tensor:
    """What `tempered` says, but each row up to a factor of its own and in float32: a draw needs no more."""
    shifted = logits - logits.amax(-1, keepdim=True)
    return _filtered(shifted.div_(temperature).exp_(), top_k, top_p)  # in place: memory is what a draw costs


def draw_tokens(
    logits: Tensor,
    uniforms: Tensor,
    temperature: float,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """Token ids [n, R] (or [n] for uniforms [n]) at a temperature; temperature 0 is the argmax."""
    single = uniforms.dim() == 1
    columns = uniforms.unsqueeze(-1) if single else uniforms
    if temperature == 0.0 or not len(logits):
        tokens = logits.argmax(-1, keepdim=True).expand(-1, columns.shape[-1])
    else:
        rows = max(1, _VALUES_AT_ONCE // logits.shape[-1]) if logits.device.type == "cpu" else max(1, len(logits))
        columns, parts = columns.double(), []
        for at in range(0, len(logits), rows):
            part = weights(logits[at : at + rows], temperature, top_k, top_p)
            parts.append(inverse_cdf(part, columns[at : at + rows]))
        tokens = torch.cat(parts) if len(parts) > 1 else parts[0]
    return tokens.squeeze(-1) if single else tokens


def confidence(kind: Confidence, probabilities: Tensor, tokens: Tensor) -> Tensor:
    """How sure the model is of a cell [n], from its probabilities [n, V]; larger = surer."""
    if kind == "probability":
        return probabilities.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
    if kind == "margin":
        best = probabilities.topk(2, dim=-1).values
        return best[..., 0] - best[..., 1]
    return (probabilities * torch.log(probabilities + 1e-10)).sum(-1)  # minus the entropy
