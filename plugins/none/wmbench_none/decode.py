"""Decoding without a mark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmbench import hookimpl
from wmbench.types import Commit, SchemeContext

if TYPE_CHECKING:
    from wmbench.runtime.step import Step


class CleanDecoding:
    """Takes the base policy's decision at every step. It has no detector: there is nothing to find."""

    def __init__(self, config: None, context: SchemeContext) -> None:
        """Nothing to configure; the context is what every scheme is built with."""

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        return step.commit()
