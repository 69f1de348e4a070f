"""A scheme as a detector: texts -> features -> scores -> verdicts, without a generator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from wmbench import __version__
from wmbench.bench.derived import digest
from wmbench.bench.plan import RunPlan
from wmbench.detection import Calibration
from wmbench.errors import CalibrationError
from wmbench.keys import SecretKey
from wmbench.normalise import RULE, normalise
from wmbench.run_hooks import RunHooks
from wmbench.settings import Settings
from wmbench.types import Features, TextCodec, TextContext, Verdict, Views

if TYPE_CHECKING:
    from wmbench.bench.build import Builder

_TEXTS_PER_CALL = 256
_PROBE = "A short text, only to learn which views the scheme has."


class Detector:
    """Scores texts under any key. Features do not depend on the key, so a further key costs no encoder call."""

    def __init__(self, plan: RunPlan, builder: Builder, codec: TextCodec) -> None:
        self.plan = plan
        self.codec = codec
        self._builder = builder
        self.hooks = RunHooks(builder.detector(plan, codec), plan.scheme.entry.plugin, codec=codec)

    @property
    def exists(self) -> bool:
        """False for schemes that mark nothing, or cannot be detected."""
        return "score" in self.hooks.implemented

    @property
    def normalises(self) -> bool:
        return self.plan.config.normalise

    def as_scored(self, text: str) -> str:
        """The text that is tokenised: as it is, or with the noise that a reader does not see undone."""
        return normalise(text) if self.normalises else text

    @cached_property
    def features_identity(self) -> Settings:
        """What the features depend on; schemes that score token ids share theirs."""
        normalised = {"normalise": RULE} if self.normalises else {}
        if "features" not in self.hooks.implemented:
            return {"features": "token ids", "codec": self.codec.fingerprint, **normalised}
        plan, info = self.plan, self.plan.scheme.info
        encoder = plan.scheme.dump().get("encoder")  # by convention; weights may change behind a name
        identity = {
            "plugin": f"wmbench {__version__}" if info.feature_family else str(plan.scheme.entry.plugin),
            "codec": self.codec.fingerprint,
            "encoder": self._builder.encoder(encoder).fingerprint if isinstance(encoder, str) else None,
            **normalised,
        }
        if info.feature_settings is not None:
            used = plan.settings_behind("features")
            return {**identity, "scheme": info.feature_family or info.name, "settings": used}
        decoding = [plan.decoding.block_length, plan.decoding.max_new_tokens]
        return {**identity, "scheme": self.identity, "decoding": decoding}

    @property
    def identity(self) -> Settings:
        """What scores depend on besides the key: settings that only concern decoding are left out."""
        info = self.plan.scheme.info
        return {"name": info.name, "alg_id": info.alg_id, "settings": self.plan.settings_behind("scores")}

    @property
    def features_digest(self) -> str:
        return digest(self.features_identity)

    def features(self, texts: Sequence[str]) -> Iterator[Features]:
        """In chunks, for texts that do not fit into memory at once."""
        for at in range(0, len(texts), _TEXTS_PER_CALL):
            part = [self.as_scored(text) for text in texts[at : at + _TEXTS_PER_CALL]]
            yield self.hooks.features(part, TextContext())

    def score(self, features: Features, key: SecretKey | None, *, evidence: bool = False) -> Views:
        return self.hooks.score(features, key, TextContext(evidence=evidence))

    def detect(self, views: Views, calibration: Calibration | None, alpha: float) -> Sequence[Verdict]:
        context = TextContext(alpha, evidence=views.evidence is not None)
        return self.hooks.detect(views, calibration, context)

    # --- what a calibration of a given size can decide ---------------------------------------------------------

    def probe(self, key: SecretKey | None) -> Views:
        """Scores of one text, to see the views."""
        return self.score(self.hooks.features([_PROBE], TextContext()), key)

    def require_level(self, key: SecretKey | None, null_texts: int, alpha: float) -> None:
        """Refuse a level that so many null texts cannot decide, by the scheme's own rule, before anything is made."""
        if refused := self.unresolved(self.probe(key), null_texts, alpha):
            refused.where = f"scheme {self.plan.scheme.label}, --calibration-texts {null_texts}"
            raise refused

    def unresolved(self, views: Views, null_texts: int, alpha: float) -> CalibrationError | None:
        """A rehearsal: whether detection at this level, with a calibration of this size, refuses."""
        calibration = Calibration(np.zeros((null_texts, len(views.names))), views.names)
        try:
            self.detect(views, calibration, alpha)
        except CalibrationError as error:
            return error
        return None
