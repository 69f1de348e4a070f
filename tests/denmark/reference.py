"""DenMark written down plainly: every candidate is forwarded, every rollout is drawn and encoded by itself.

It imports the random generator, the toy encoder, the key functions and how a unit is encoded, and nothing of the
plugin's decoding. It also counts what an accelerated decoder has to pay for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import torch

from wmbench.keys import SecretKey
from wmbench.runtime.backbones.mini import MiniBackbone
from wmbench.runtime.backbones.tiny import TinyBackbone
from wmbench.runtime.randomness import SampleRandom
from wmbench.semantics.channels import secret_channels
from wmbench.semantics.units import embed_ids
from wmbench.testing import ToyEncoder
from wmbench.types import Encoder


@dataclass
class Settings:
    unit: int = 5
    candidates: int = 4
    channels: int = 2
    positions: int = 1
    mean_rollouts: int = 3
    same_positions: bool = False
    low_confidence: bool = False
    common: bool = True


@dataclass
class PlainRow:
    backbone: TinyBackbone | MiniBackbone
    prompt_ids: list[int]
    sample_id: str
    key: SecretKey
    settings: Settings
    new_tokens: int = 12
    encoder: Encoder = field(default_factory=ToyEncoder)
    step: int = 0
    forwards: int = 0
    needed: int = 0
    """Forwards of the accelerated decoder: distinct candidates that leave masks, and base canvases never seen."""
    canvas: np.ndarray = field(init=False)
    seen: set[bytes] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.canvas = np.array(self.prompt_ids + [self.backbone.mask_id] * self.new_tokens)
        self.random = SampleRandom(0, self.sample_id)
        self.start = len(self.prompt_ids)

    def masked(self) -> list[int]:
        return [c for c in range(self.start, len(self.canvas)) if self.canvas[c] == self.backbone.mask_id]

    def probabilities(self, canvas: np.ndarray, temperature: float) -> np.ndarray:
        """[L, V] in float64 from one forward of the whole canvas."""
        self.forwards += 1
        backbone, columns = self.backbone, np.arange(len(canvas))
        length = backbone.attention.block_length
        blocks = np.zeros(len(canvas), dtype=np.int64)
        if length is not None:
            blocks = np.where(columns < self.start, 0, 1 + (columns - self.start) // length)
        mask = torch.from_numpy(blocks[:, None] >= blocks[None, :])[None, None]
        ids, positions = torch.from_numpy(canvas)[None], torch.arange(len(canvas))[None]
        states = backbone.model(ids, positions, mask, torch.from_numpy(blocks)[None])[0]
        if backbone.logit_shift:
            states = states[[max(0, c - 1) for c in columns]]
        logits = backbone.logits(states).double().numpy() / temperature
        logits[:, list(self.backbone.banned_ids)] = -np.inf
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)

    def uniforms(self, purpose: str, shape: tuple[int, ...], lane: int) -> np.ndarray:
        return self.random.uniforms(purpose, self.step, shape, lane)

    def score(self, number: int, ids: list[int]) -> float:
        """g_b by its definition: a mean over channels."""
        units, dimension = np.array([number]), self.encoder.dimension
        directions, signs = secret_channels(self.key, "denmark", 1, units, self.settings.channels, dimension)
        embedding = embed_ids(self.encoder, self.backbone.codec, [ids])[0].astype(np.float64)
        return float(np.mean([s * (embedding @ theta) for theta, s in zip(directions[0], signs[0], strict=True)]))

    def best_of_unit(self, number: int, count: int, given: list[int] | None) -> dict[int, int]:
        """Column -> token of the winning candidate; nothing is written."""
        settings = self.settings
        first = self.start + number * settings.unit
        end = min(first + settings.unit, len(self.canvas))
        masks = [c for c in self.masked() if first <= c < end]
        length, q, k_max = end - first, len(masks), settings.candidates
        rollouts = settings.mean_rollouts
        if length > 1:
            rollouts = max(1, math.floor(1 + 2 * (settings.mean_rollouts - 1) * (q - 1) / (length - 1) + 0.5))
        base, raw = self.probabilities(self.canvas, 0.6), self.probabilities(self.canvas, 1.0)
        u_token = self.uniforms("candidate tokens", (q, k_max), number)
        u_position = self.uniforms("candidate positions", (k_max, q), number)
        best: tuple[float, float, int] | None = None
        answer: dict[int, int] = {}
        distinct = set()
        proposals = [[draw(base[c], u_token[i, k]) for i, c in enumerate(masks)] for k in range(k_max)]
        for k, tokens in enumerate(proposals):
            leader = 0 if settings.same_positions else k  # whose positions candidate k fills
            ranking = u_position[leader]
            if settings.low_confidence:
                ranking = np.array([raw[c][t] for c, t in zip(masks, proposals[leader], strict=True)])
            places = sorted(np.argsort(-ranking, kind="stable")[:count].tolist())
            if given is not None and settings.same_positions:
                places = [masks.index(c) for c in given]
            filling = {masks[i]: tokens[i] for i in places}
            log_p = sum(math.log(raw[c][t]) for c, t in filling.items())
            canvas = self.canvas.copy()
            canvas[list(filling)] = list(filling.values())
            rest = [c for c in masks if c not in filling]
            scores = []
            for rho in range(rollouts if rest else 1):
                unit = canvas.copy()
                if rest:
                    p = self.probabilities(canvas, 0.5)
                    shape = (length, rollouts) if settings.common else (k_max, length, rollouts)
                    u = self.uniforms("rollouts", shape, number)
                    u = u if settings.common else u[k]
                    for c in rest:
                        unit[c] = draw(p[c], u[c - first, rho])
                scores.append(self.score(number, unit[first:end].tolist()))
            if rest:
                distinct.add(canvas.tobytes())
            # Means of equal texts may differ in the last bit when they are summed in another order.
            rank = (round(float(np.mean(scores)), 12), round(log_p, 5), -k)
            if best is None or rank > best:
                best, answer = rank, filling
        self.needed += len(distinct) + (self.canvas.tobytes() not in self.seen)
        self.seen |= distinct | {self.canvas.tobytes()}
        return answer

    def decode_unit_by_unit(self) -> None:
        while masked := self.masked():
            number = (masked[0] - self.start) // self.settings.unit
            first = self.start + number * self.settings.unit
            left = sum(c < first + self.settings.unit for c in masked)
            self.write(self.best_of_unit(number, min(self.settings.positions, left), None))

    def decode_bernoulli(self, steps: int, eps: float = 1e-3) -> None:
        """Dream's time: every mask is transferred with probability 1 - s/t; r > 1: r random positions instead."""
        times = torch.linspace(1, eps, steps + 1)
        shares = (1 - times[1:] / times[:-1]).numpy()
        tick = 0
        while masked := self.masked():
            u = self.random.uniforms("transfer", tick, self.new_tokens)
            native = [c for c in masked if tick >= steps - 1 or u[c - self.start] < shares[tick]]
            tick += 1
            if not native:
                continue
            if self.settings.positions > 1:
                u = self.uniforms("transferred positions", (self.new_tokens,), 0)
                native = sorted(sorted(masked, key=lambda c: -u[c - self.start])[: self.settings.positions])
            units = sorted({(c - self.start) // self.settings.unit for c in native})
            groups = {b: [c for c in native if (c - self.start) // self.settings.unit == b] for b in units}
            winners = [self.best_of_unit(b, len(columns), columns) for b, columns in groups.items()]
            self.write({c: t for winner in winners for c, t in winner.items()})

    def write(self, filling: dict[int, int]) -> None:
        for column, token in filling.items():
            self.canvas[column] = token
        self.step += 1


def draw(probabilities: np.ndarray, uniform: float) -> int:
    """The first token whose cumulative probability exceeds the uniform."""
    cumulative = np.cumsum(probabilities)
    return int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
