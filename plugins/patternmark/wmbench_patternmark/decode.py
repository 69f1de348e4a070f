"""Decoding: every position prefers the tokens of its key colour."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from wmbench import hookimpl
from wmbench.types import Commit, IntArray, Sample, SchemeContext
from wmbench_patternmark.config import PatternMarkConfig
from wmbench_patternmark.detect import PatternDetector
from wmbench_patternmark.keys import KeyChain, chain, official_chain, official_seed, token_colours

if TYPE_CHECKING:
    from wmbench.runtime.step import Step


def favour(logits: Tensor, colour_of: Tensor, keys: Tensor, delta: float) -> Tensor:
    """Logits [n, width], with delta added where the colour [V] of a token is the key [n] of the position."""
    # Ids beyond the tokenizer have the colour -1, which is no key's.
    colours = pad(colour_of, (0, logits.shape[1] - len(colour_of)), value=-1)
    return logits + delta * (colours == keys[:, None])


class PatternMark(PatternDetector):
    """The scheme. Built without a key it can still detect: `score` is handed one."""

    def __init__(self, config: PatternMarkConfig, context: SchemeContext) -> None:
        super().__init__(config, context)
        self._key = context.key

    @cached_property
    def colour_of(self) -> Tensor:
        """[V] int8"""
        return torch.from_numpy(token_colours(self.config, self.size, self._key).copy())

    @hookimpl
    def begin(self, sample: Sample) -> KeyChain:
        return KeyChain(official_seed(sample))

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        logits = step.logits()
        keys = np.empty(len(step.open), dtype=np.int8)
        for r in range(len(step.rows)):
            mine = step.open.rows == r
            keys[mine] = self._canvas_keys(step, r)[step.open.columns[mine]]
        colour_of, key_colours = (x.to(logits.device) for x in (self.colour_of, torch.from_numpy(keys)))
        return step.commit(favour(logits, colour_of, key_colours, self.config.delta))

    def _canvas_keys(self, step: Step, r: int) -> IntArray:
        """Key colours [canvas] of row r, prompt included."""
        row = step.rows[r]
        state: KeyChain = row.state
        if state.keys is None:
            if self.config.prf == "official":
                state.keys = official_chain(self.config, row.length, state.official_seed)
            else:
                state.keys = chain(self.config, row.uniforms("patternmark keys", row.length + 1))
        return state.keys
