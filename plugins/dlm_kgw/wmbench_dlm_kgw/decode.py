"""Decoding: add to the logits what makes green tokens likely, in expectation over what is still masked."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from wmbench import hookimpl
from wmbench.errors import ConfigError
from wmbench.types import Commit, SchemeContext
from wmbench_dlm_kgw.booster import Booster
from wmbench_dlm_kgw.config import DlmKgwConfig
from wmbench_dlm_kgw.detect import GreenDetector
from wmbench_dlm_kgw.green import green_matrix
from wmbench_dlm_kgw.neighbourhood import neighbourhood
from wmbench_dlm_kgw.several import SeveralContexts
from wmbench_dlm_kgw.single import SingleContext

if TYPE_CHECKING:
    from wmbench.runtime.step import Step


class DlmKgw(GreenDetector):
    """The scheme. Built without a key it can still detect: `score` is handed one."""

    def __init__(self, config: DlmKgwConfig, context: SchemeContext) -> None:
        super().__init__(config, context)
        self._key = context.key

    @cached_property
    def booster(self) -> Booster:
        config = self.config
        closed_form = len(config.convolution_kernel) == 1 and config.greenlist_type != "gaussian"
        kind: type[Booster] = SingleContext if closed_form else SeveralContexts
        return kind(config, self.size, green_matrix(config, self.size, self._key))

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        temperature = step.decoding.temperature
        if temperature == 0:
            raise ConfigError(
                "dlm_kgw cannot decode greedily",
                why="its expectation is over softmax(logits / temperature)",
                hint="set a temperature above 0, e.g. 0.5",
            )
        cells = neighbourhood(step, self.config.convolution_kernel, self.config.n_iter)
        return step.commit(self.booster.boosted(cells, step.logits(cells.masked_cells), temperature))
