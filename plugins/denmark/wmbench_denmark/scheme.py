"""The scheme as the host sees it. torch is imported by the first decoding step only: detection does not need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wmbench import hookimpl
from wmbench.detection import Calibration
from wmbench.errors import ConfigError
from wmbench.keys import SecretKey
from wmbench.semantics.units import EMPTY_TEXT
from wmbench.types import Commit, Encoder, Features, SchemeContext, TextContext, Verdict, Views
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.detect import min_p_verdicts, unit_features, unit_scores

if TYPE_CHECKING:
    from wmbench.runtime.step import Step
    from wmbench_denmark.decode import Decoder


class DenMark:
    """Marks with the context's key; scores with the key it is handed."""

    def __init__(self, config: DenMarkConfig, context: SchemeContext) -> None:
        self._config = config
        self._context = context
        self._encoder: Encoder | None = None
        self._decoder: Decoder | None = None

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        return self.decoder.decide(step)

    @hookimpl
    def features(self, texts: Sequence[str]) -> Features:
        return unit_features(texts, self._load_encoder(), self._context.codec, self._config)

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        return unit_scores(features, key, self._config, context)

    @hookimpl
    def detect(self, views: Views, calibration: Calibration | None, context: TextContext) -> Sequence[Verdict] | None:
        """The host's verdict is the paper's; None leaves it to the host."""
        if self._config.scan_rule == "bonferroni" or calibration is None:
            return None
        return min_p_verdicts(views, calibration, context)

    @property
    def decoder(self) -> Decoder:
        if self._decoder is None:
            from wmbench_denmark.decode import Decoder

            self._decoder = Decoder(self._config, self._load_encoder(), self._context.codec, self._context.key)
        return self._decoder

    def _load_encoder(self) -> Encoder:
        if self._encoder is None:
            if self._context.load_encoder is None:
                raise ConfigError("DenMark needs an encoder, and none can be loaded here")
            self._encoder = _checked(self._context.load_encoder(self._config.encoder), self._config)
        return self._encoder


def _checked(encoder: Encoder, config: DenMarkConfig) -> Encoder:
    """The encoder, if its vectors have the dimension that it declares and the user expects."""
    found = encoder.encode([EMPTY_TEXT]).shape[-1]
    expected = config.dimension or encoder.dimension
    if not found == encoder.dimension == expected:
        raise ConfigError(
            f"encoder {config.encoder!r} has the wrong dimension",
            why=f"its vectors have {found} entries, it declares {encoder.dimension}, {expected} are expected",
            hint="name the encoder the text was marked with (`-S encoder=<name>`), or leave `dimension` out",
        )
    return encoder
