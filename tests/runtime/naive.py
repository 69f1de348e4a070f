"""A plain reference decoder: forwards the whole canvas for everything, keeps nothing, shares nothing.

It imports the random generator and the model, and nothing else from the runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from wmbench.runtime.backbones.tiny import TinyBackbone
from wmbench.runtime.randomness import SampleRandom

NEW_TOKENS = 40


@dataclass
class NaiveRow:
    backbone: TinyBackbone
    prompt_ids: list[int]
    sample_id: str
    seed: int = 0
    step: int = 0
    forwards: int = 0
    canvas: np.ndarray = field(init=False)
    random: SampleRandom = field(init=False)

    def __post_init__(self) -> None:
        self.canvas = np.array(self.prompt_ids + [self.backbone.mask_id] * NEW_TOKENS)
        self.random = SampleRandom(self.seed, self.sample_id)

    @property
    def start(self) -> int:
        return len(self.prompt_ids)

    def masked(self) -> list[int]:
        return [c for c in range(self.start, len(self.canvas)) if self.canvas[c] == self.backbone.mask_id]

    def block_scope(self, length: int) -> list[int]:
        """Masked columns of the first decoding block that has any."""
        masked = self.masked()
        block = (masked[0] - self.start) // length
        return [c for c in masked if (c - self.start) // length == block]

    def probabilities(self, canvas: np.ndarray, temperature: float) -> np.ndarray:
        """[L, V] in float64, banned ids at zero, from one forward of the whole canvas."""
        self.forwards += 1
        config, model = self.backbone.config, self.backbone.model
        length = len(canvas)
        columns = np.arange(length)
        if config.attention == "full":
            block = np.zeros(length, dtype=int)
        elif config.block_origin == "prompt":
            block = columns // config.attention_block
        else:
            block = np.where(columns < self.start, -1, (columns - self.start) // config.attention_block)
        mask = torch.from_numpy(block[:, None] >= block[None, :])[None, None]
        states = model(torch.from_numpy(canvas)[None], torch.arange(length)[None], mask)[0]
        if config.shift:
            states = states[[max(0, c - 1) for c in range(length)]]
        logits = (model.logits(states) * config.scale).double().numpy()
        logits[:, list(self.backbone.banned_ids)] = -np.inf
        shifted = np.exp(logits / temperature - (logits / temperature).max(-1, keepdims=True))
        return shifted / shifted.sum(-1, keepdims=True)

    def uniforms(self, purpose: str, shape: int | tuple[int, ...], lane: int = 0) -> np.ndarray:
        return self.random.uniforms(purpose, self.step, shape, lane)


def draw(probabilities: np.ndarray, uniform: float) -> int:
    """The first token whose cumulative probability exceeds the uniform."""
    total = 0.0
    for token, p in enumerate(probabilities):
        total += p
        if total > uniform:
            return token
    return int(np.flatnonzero(probabilities)[-1])


def certainty(positions: str, probabilities: np.ndarray, token: int) -> float:
    if positions == "margin":
        first, second = sorted(probabilities)[:-3:-1]
        return float(first - second)
    if positions == "entropy":
        return float(sum(p * np.log(p) for p in probabilities if p > 0))
    return float(probabilities[token])


def clean(row: NaiveRow, block_length: int, temperature: float, positions: str) -> None:
    """One token per step, random or most confident position first."""
    while row.masked():
        scope = row.block_scope(block_length)
        p = row.probabilities(row.canvas, temperature)
        draws = row.uniforms("token", NEW_TOKENS)
        tokens = {c: draw(p[c], draws[c - row.start]) for c in scope}
        if positions == "random":
            u = row.uniforms("position", NEW_TOKENS)
            column = max(scope, key=lambda c: u[c - row.start])
        else:
            raw = row.probabilities(row.canvas, 1.0)
            column = max(scope, key=lambda c: certainty(positions, raw[c], tokens[c]))
        row.canvas[column] = tokens[column]
        row.step += 1


def lookahead_search(
    row: NaiveRow, block_length: int, candidates: int, rollouts: int, score: Callable[[list[int]], float], remask: bool
) -> None:
    """Every candidate forwarded, every rollout drawn separately; the best mean score wins (first index on ties)."""
    handed_back: set[int] = set()
    while row.masked():
        scope = row.block_scope(block_length)
        base = row.probabilities(row.canvas, 0.6)
        u_position = row.uniforms("candidate position", candidates)
        u_token = row.uniforms("candidate token", candidates)
        best = None
        for k in range(candidates):
            column = scope[int(u_position[k] * len(scope))]
            token = draw(base[column], u_token[k])
            canvas = row.canvas.copy()
            canvas[column] = token
            others = [c for c in scope if c != column]
            first = scope[0] - (scope[0] - row.start) % block_length
            scores = []
            for rollout in range(rollouts):
                unit = canvas.copy()
                if others:
                    p = row.probabilities(canvas, 0.5)
                    u = row.uniforms("rollout", (NEW_TOKENS, rollouts))
                    for c in others:
                        unit[c] = draw(p[c], u[c - row.start, rollout])
                scores.append(score(unit[first : first + block_length].tolist()))
            if best is None or np.mean(scores) > best[0]:
                best = (np.mean(scores), column, token)
        assert best is not None
        row.canvas[best[1]] = best[2]
        row.step += 1
        target = row.start + row.step - 9
        due = remask and row.step in (9, 23) and target not in handed_back
        if due and row.canvas[target] != row.backbone.mask_id:
            row.canvas[target] = row.backbone.mask_id
            handed_back.add(target)
