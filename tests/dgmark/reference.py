"""The decode rule of DGMark written as a plain loop over one canvas."""

from __future__ import annotations

import numpy as np
import torch

from tests.dgmark.toy_backbone import MASK, FormulaBackbone


def greedy_decode(
    prompt: list[int], new_tokens: int, block: int, beam: int, look_ahead_always: bool
) -> tuple[list[int], list[int], int]:
    """Final ids, the order of the columns, and how many different canvases were evaluated, at temperature 0."""
    canvas = prompt + [MASK] * new_tokens
    evaluated: set[tuple[int, ...]] = set()
    order: list[int] = []
    for first in range(len(prompt), len(canvas), block):
        scope = list(range(first, min(first + block, len(canvas))))
        while scope:
            token, reward = candidates(canvas, scope)
            evaluated.add(tuple(canvas))
            fitting = [c for c in scope if fits(c, token[c])]
            pool = sorted(fitting or scope, key=lambda c: -reward[c])[:beam]
            best = pool[0]
            if len(pool) > 1 and (fitting or look_ahead_always):
                trials = {c: [*canvas[:c], token[c], *canvas[c + 1 :]] for c in pool}
                counts = {c: fitting_after(trials[c], [o for o in scope if o != c]) for c in pool}
                best = max(pool, key=lambda c, counts=counts: counts[c])  # type: ignore[misc]
                evaluated |= {tuple(trial) for trial in trials.values()}
            canvas[best] = token[best]
            order.append(best)
            scope.remove(best)
    return canvas, order, len(evaluated)


def fits(column: int, token: int) -> bool:
    return (column + 1) % 2 == token % 2


def candidates(canvas: list[int], scope: list[int]) -> tuple[dict[int, int], dict[int, float]]:
    left = np.array([0, *canvas[:-1]])
    right = np.array([*canvas[1:], 0])
    states = torch.from_numpy(np.stack([np.arange(len(canvas)), left, right], -1).astype(float))
    probabilities = FormulaBackbone().logits(states).softmax(-1)[scope]
    best = probabilities.max(-1)
    return dict(zip(scope, best.indices.tolist(), strict=True)), dict(zip(scope, best.values.tolist(), strict=True))


def fitting_after(trial: list[int], others: list[int]) -> int:
    return sum(fits(c, v) for c, v in candidates(trial, others)[0].items())
