"""The scheme as the host sees it. torch is imported by the first decoding step only: detection does not need it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from wmbench import hookimpl
from wmbench.keys import SecretKey
from wmbench.semantics.scan import UnitDetector
from wmbench.types import Commit, Features, SchemeContext, TextContext, Views
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.detect import unit_scores

if TYPE_CHECKING:
    from wmbench.runtime.step import Step
    from wmbench_denmark.decode import Decoder


class DenMark(UnitDetector):
    """Marks with the context's key; scores with the key it is handed."""

    def __init__(self, config: DenMarkConfig, context: SchemeContext) -> None:
        super().__init__(config, context)
        self._config = config

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        return self.decoder.decide(step)

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        return unit_scores(features, key, self._config, context)

    @cached_property
    def decoder(self) -> Decoder:
        from wmbench_denmark.decode import Decoder

        return Decoder(self._config, self.encoder, self._context.codec, self._context.key)
