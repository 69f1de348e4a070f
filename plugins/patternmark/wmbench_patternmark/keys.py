"""What the key decides: the colour of every token. And what chance decides: the key colour of every position."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from wmbench.keys import SecretKey
from wmbench.prf import require_key
from wmbench.types import IntArray, Sample
from wmbench_patternmark.config import PatternMarkConfig

Colours = npt.NDArray[np.int8]
_OFFICIAL_SEED = 42


def token_colours(config: PatternMarkConfig, size: int, key: SecretKey | None) -> Colours:
    """Colour [V] of every token."""
    if config.prf == "official":
        return _official_partition(size, config.colours)
    return _keyed_partition(require_key(key, "patternmark"), size, config.colours)


@lru_cache(maxsize=4)
def _official_partition(size: int, colours: int) -> Colours:
    """torch's permutation of seed 42 on the CPU. (The published runs used the other one that CUDA gives.)"""
    import torch

    return _partition(torch.randperm(size, generator=torch.Generator().manual_seed(_OFFICIAL_SEED)).numpy(), colours)


@lru_cache(maxsize=32)
def _keyed_partition(key: SecretKey, size: int, colours: int) -> Colours:
    return _partition(key.stream("patternmark", 1, "partition").permutation(0, 0, size), colours)


def _partition(permutation: IntArray, colours: int) -> Colours:
    """The permutation cut into slices of size V // colours; the last takes the remainder, of fewer tokens than colours
    all."""
    size = len(permutation)
    colour_of = np.empty(size, dtype=np.int8)
    share = size // colours
    colour_of[permutation] = np.minimum(np.arange(size) // share, colours - 1) if share else colours - 1
    colour_of.flags.writeable = False
    return colour_of


@dataclass(slots=True)
class KeyChain:
    """A sample's state: one key colour for every column of its canvas, drawn at its first step and kept."""

    official_seed: int
    keys: IntArray | None = None


def official_chain(config: PatternMarkConfig, length: int, seed: int) -> IntArray:
    """Drawn as published, one `torch.multinomial` per key; the initial state itself is no key."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    weights = torch.tensor(config.transition_matrix)
    key = int(torch.multinomial(torch.tensor(config.initial_state), 1, generator=generator))
    keys = []
    for _ in range(length):
        key = int(torch.multinomial(weights[key], 1, generator=generator))
        keys.append(key)
    return np.array(keys, dtype=np.int64)


def official_seed(sample: Sample) -> int:
    """The seed DenMark's runs set before every attempt at a prompt."""
    attempt: int = sample.meta.get("attempt", 0)
    return 42 + 1000 * sample.index + attempt


def chain(config: PatternMarkConfig, uniforms: npt.NDArray[np.float64]) -> IntArray:
    """The same chain from uniforms [length + 1]."""
    first, *rest = uniforms.tolist()
    steps = [_cumulative(row) for row in config.transition_matrix]
    key = bisect_right(_cumulative(config.initial_state), first)
    keys = [key := bisect_right(steps[key], u) for u in rest]
    return np.array(keys, dtype=np.int64)


def _cumulative(weights: tuple[float, ...]) -> list[float]:
    """Upper ends of the colours' shares of [0, 1). The last colour of positive weight reaches 1 whatever is rounded."""
    ends = [end / sum(weights) for end in accumulate(weights)]
    last = max(i for i, weight in enumerate(weights) if weight > 0)
    return ends[:last]
