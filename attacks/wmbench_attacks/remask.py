"""The attacker that diffusion language models invite: mask some tokens again, and let a clean model refill them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from wmbench import hookimpl
from wmbench.errors import ConfigError
from wmbench.types import AttackContext, Attacked, AttackInput
from wmbench_attacks.config import AttackConfig
from wmbench_attacks.pieces import random_for, share_of, unchanged

if TYPE_CHECKING:
    from wmbench.runtime.backbone import Backbone
    from wmbench.runtime.infill import Canvas


_ROWS_AT_ONCE = 16
"""Texts refilled side by side: as many as the benchmark hands over at once."""


class RemaskConfig(AttackConfig):
    """Settings of `remask`."""

    ratio: float = Field(0.3, ge=0, le=1, description="Share of the tokens that is masked again.")
    backbone: str = Field("", description="Backbone that refills; empty: the one of the run.")
    temperature: float = Field(0.5, ge=0, description="Token temperature of the refill.")
    positions: Literal["random", "low_confidence", "left_to_right"] = Field(
        "random", description="In which order the masks are filled."
    )
    tokens_per_step: int = Field(1, ge=1, description="Masks filled by one forward.")
    window: int = Field(512, ge=1, description="Longer texts are refilled in stretches of so many tokens.")
    min_similarity: float | None = Field(
        None,
        ge=-1,
        le=1,
        description="Units whose embedding moved further away than this cosine get their tokens back.",
    )
    unit: int = Field(25, ge=1, description="Tokens of a unit; only for `min_similarity`.")
    encoder: str = Field("mini", description="Encoder of the units; only for `min_similarity`.")

    @property
    def uses(self) -> Mapping[str, Mapping[str, dict[str, Any]]]:
        return {
            "backbones": {self.backbone: {}} if self.backbone else {},
            "encoders": {self.encoder: {}} if self.min_similarity is not None else {},
        }


@dataclass(slots=True)
class Job:
    """One text on its way."""

    ids: list[int]
    lossless: bool
    """Whether the tokenizer gives the text back as it was."""
    canvases: list[Canvas]
    masked: int
    refilled: list[int]
    given_back: int = 0


class Remask:
    """Masks tokens at random and refills them by clean decoding, knowing the prompt."""

    def __init__(self, config: RemaskConfig | None = None) -> None:
        self.config = config or RemaskConfig()

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        if context.load_backbone is None:
            raise ConfigError("remask needs a backbone, and here is none to load", hint="run it with `wmbench run`")
        from wmbench.runtime.infill import refill

        backbone: Backbone = context.load_backbone(self.config.backbone)
        jobs = [self._job(item, context.seed, backbone) for item in texts]
        filled = iter(
            refill(
                backbone,
                [canvas for job in jobs for canvas in job.canvases],
                seed=context.seed,
                temperature=self.config.temperature,
                positions=self.config.positions,
                tokens_per_step=self.config.tokens_per_step,
                batch_size=_ROWS_AT_ONCE,
            )
        )
        for job in jobs:
            job.refilled = [i for _ in job.canvases for i in next(filled)]
            self._keep_meaning(job, backbone, context)
        return [self._result(item, job, backbone) for item, job in zip(texts, jobs, strict=True)]

    def _job(self, item: AttackInput, seed: int, backbone: Backbone) -> Job:
        from wmbench.runtime.infill import Canvas

        codec = backbone.codec
        ids = [i for i in codec.encode(item.text) if i not in codec.special_ids]
        count = share_of(self.config.ratio, len(ids))
        masked = random_for(seed, item.id, "remask", self.config.ratio).sample(range(len(ids)), count)
        prompt = codec.encode_prompt(item.prompt)
        if 2 * len(prompt) > backbone.max_length:
            prompt = []  # it would leave no room for the text
        width = min(self.config.window, backbone.max_length - len(prompt))
        canvases = []
        for start in range(0, len(ids), width):
            part = ids[start : start + width]
            holes = sorted(place - start for place in masked if start <= place < start + width)
            canvases.append(Canvas(f"{item.id}/remask {start}", prompt, part, holes))
        return Job(ids, codec.decode(ids) == item.text, canvases, count, [])

    def _keep_meaning(self, job: Job, backbone: Backbone, context: AttackContext) -> None:
        """Undo the refill of units that have moved too far."""
        if self.config.min_similarity is None or not job.ids:
            return
        if context.load_encoder is None:
            raise ConfigError("min_similarity needs an encoder, and here is none to load")
        from wmbench.semantics.units import embed_ids

        encoder, size = context.load_encoder(self.config.encoder), self.config.unit
        starts = [at for at in range(0, len(job.ids), size) if job.ids[at : at + size] != job.refilled[at : at + size]]
        if not starts:
            return
        before, after = (
            embed_ids(encoder, backbone.codec, [ids[at : at + size] for at in starts])
            for ids in (job.ids, job.refilled)
        )
        for at, similarity in zip(starts, np.sum(before * after, axis=1), strict=True):
            if similarity < self.config.min_similarity:
                job.refilled[at : at + size] = job.ids[at : at + size]
                job.given_back += 1

    def _result(self, item: AttackInput, job: Job, backbone: Backbone) -> Attacked:
        changed = sum(before != after for before, after in zip(job.ids, job.refilled, strict=True))
        details: dict[str, Any] = {
            "tokens": len(job.ids),
            "masked": job.masked,
            "changed": changed,
            "units_given_back": job.given_back,
            "lossless": job.lossless,
        }
        if not self.config.ratio:
            return Attacked(item.text, details=details)
        text = backbone.codec.decode(job.refilled)
        if not changed or text == item.text:  # other tokens may spell the same words
            return unchanged(f"{job.masked} of {len(job.ids)} tokens were masked, and all came back", details)
        return Attacked(text, details=details)
