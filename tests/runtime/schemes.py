"""The accelerated counterparts of the reference: written on the public step only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from wmbench.runtime.lookahead import Edit
from wmbench.runtime.sampling import draw_tokens
from wmbench.runtime.step import Cells, Step
from wmbench.types import Commit


def make_lookahead_search(
    block_length: int, candidates: int, rollouts: int, score: Callable[[list[int]], float], remask: bool
) -> Callable[[Step], Commit]:
    handed_back: set[tuple[str, int]] = set()

    def decide(step: Step) -> Commit:
        scopes = [plan.scope for plan in step.plans]
        cells = Cells.ragged(scopes)
        logits = step.logits(cells)
        edits, columns, uniforms, units = [], [], [], []
        for r, row in enumerate(step.rows):
            mine, scope = logits[cells.rows == r], scopes[r]
            chosen = (row.uniforms("candidate position", candidates) * len(scope)).astype(int)
            u = torch.from_numpy(row.uniforms("candidate token", candidates))
            tokens = draw_tokens(mine[chosen], u, 0.6).numpy()
            draws = row.uniforms("rollout", (row.length - row.start, rollouts))
            first = scope[0] - (scope[0] - row.start) % block_length
            for k in range(candidates):
                column = scope[chosen[k]]
                others = scope[scope != column]
                edits.append(Edit(r, np.array([column]), tokens[k : k + 1]))
                columns.append(others)
                uniforms.append(draws[others - row.start])
                units.append((row, first, others))
        filled = step.lookahead(edits).sample(columns, uniforms, 0.5)
        means = []
        for edit, tokens, (row, first, others) in zip(edits, filled, units, strict=True):
            canvas = row.edited(edit.columns, edit.tokens)
            scores = []
            for rollout in range(rollouts):
                canvas[others] = tokens[:, rollout]
                scores.append(score(canvas[first : min(first + block_length, row.length)].tolist()))
            means.append(np.mean(scores))
        triples, back = [], []
        for r, row in enumerate(step.rows):
            best = max(range(r * candidates, (r + 1) * candidates), key=lambda i: (means[i], -i))
            triples.append((r, int(edits[best].columns[0]), int(edits[best].tokens[0])))
            target = row.start + row.step + 1 - 9
            due = remask and row.step + 1 in (9, 23) and (row.sample.id, target) not in handed_back
            if due and (row.canvas[target] != row.mask_id or target == triples[-1][1]):
                handed_back.add((row.sample.id, target))
                back.append((r, target))
        return Commit.of(triples, back)

    return decide


def token_score(ids: list[int]) -> float:
    """Any function of the whole unit will do."""
    return float(sum(((i + 1) * 2654435761 * (p + 3)) % 97 for p, i in enumerate(ids)))
