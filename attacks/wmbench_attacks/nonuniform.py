"""Lengths that change along the text: some sentences compressed, others expanded, by any sentence-level rewriters.

What was one unit of the watermark is then spread over another number of tokens in every part of the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from wmbench import hookimpl
from wmbench.errors import ConfigError
from wmbench.types import AttackContext, Attacked, AttackInput
from wmbench_attacks import plans
from wmbench_attacks.config import AttackConfig
from wmbench_attacks.pieces import Pieces
from wmbench_attacks.plans import Band, Mode
from wmbench_attacks.sentences import require_splitter, sentences_of

_SETTINGS = "Settings of these attacks, such as {model: NAME, base_url: ADDRESS}."
_TOLERANCE = "Share of the sentences that may stay because no rewriter can change them; above it the text fails."


class NonUniformConfig(AttackConfig):
    """Settings of the attacks that mix compression and expansion."""

    compress: str = Field("lab-compress", description="Attack that makes a sentence shorter.")
    expand: str = Field("lab-expand", description="Attack that makes a sentence longer.")
    settings: dict[str, Any] = Field(default_factory=dict, description=_SETTINGS)
    tolerance: float = Field(0.25, ge=0, le=1, description=_TOLERANCE)

    @property
    def uses(self) -> Mapping[str, Mapping[str, dict[str, Any]]]:
        return {"attacks": {self.compress: self.settings, self.expand: self.settings}}


class RandomRunsConfig(NonUniformConfig):
    """Settings of `nonuniform-runs`."""

    switch: float = Field(0.35, ge=0, le=1, description="Probability that the mode changes after a sentence.")


class RegionsConfig(AttackConfig):
    """Settings of `nonuniform-regions`."""

    compress: str = Field(
        "lab-compress",
        description="Attack that makes a passage shorter; it needs the settings `shortest` and `longest`.",
    )
    settings: dict[str, Any] = Field(default_factory=dict, description=_SETTINGS)
    attempts: int = Field(3, ge=1, description="Tries to meet a band; the closest result counts.")
    tolerance: float = Field(0.25, ge=0, le=1, description=_TOLERANCE)

    @property
    def uses(self) -> Mapping[str, Mapping[str, dict[str, Any]]]:
        return {"attacks": {self.compress: self.settings_for(plans.BANDS[0])}}

    def settings_for(self, band: Band) -> dict[str, Any]:
        return {**self.settings, "shortest": band[0], "longest": band[1]}


# --- sentence by sentence ------------------------------------------------------------------------------------------


class NonUniform:
    """Compresses some sentences and expands others; the subclasses say which."""

    name: ClassVar[Literal["alternating", "halves", "runs"]]

    def __init__(self, config: NonUniformConfig | None = None) -> None:
        require_splitter()
        self.config = config or (RandomRunsConfig() if self.name == "runs" else NonUniformConfig())

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        split = [sentences_of(item.text) for item in texts]
        wanted: dict[tuple[int, int], Mode] = {}
        for t, (item, sentences) in enumerate(zip(texts, split, strict=True)):
            plan = self.plan(len(sentences), context.seed, item.id)
            wanted |= {(t, s): mode for s, mode in enumerate(plan)}
        inputs = {(t, s): _part(texts[t], f"sentence {s}", split[t].parts[s]) for t, s in wanted}
        found = self._rewritten(inputs, wanted, context)
        # A sentence that cannot become shorter may still become longer, and the other way round.
        swapped = {at: _OTHER[mode] for at, mode in wanted.items() if at not in found}
        found |= self._rewritten(inputs, swapped, context)
        return [self._result(t, split[t], wanted, swapped, found) for t in range(len(texts))]

    def plan(self, sentences: int, seed: int, item_id: str) -> list[Mode]:
        if isinstance(self.config, RandomRunsConfig):
            return plans.random_runs(sentences, seed, item_id, self.config.switch)
        return plans.alternating(sentences) if self.name == "alternating" else plans.halves(sentences)

    def _rewritten(
        self,
        inputs: Mapping[tuple[int, int], AttackInput],
        modes: Mapping[tuple[int, int], Mode],
        context: AttackContext,
    ) -> dict[tuple[int, int], str]:
        """All sentences of a mode in one call: rewriters that ask a server work on many at once."""
        found: dict[tuple[int, int], str] = {}
        for mode, rewriter in (("compress", self.config.compress), ("expand", self.config.expand)):
            places = [at for at in modes if modes[at] == mode]
            results = _rewrite(rewriter, self.config.settings, [inputs[at] for at in places], context)
            found |= {at: text for at, text in zip(places, results, strict=True) if text is not None}
        return found

    def _result(
        self,
        t: int,
        sentences: Pieces,
        wanted: Mapping[tuple[int, int], Mode],
        swapped: Mapping[tuple[int, int], Mode],
        found: Mapping[tuple[int, int], str],
    ) -> Attacked:
        places = [(t, s) for s in range(len(sentences))]
        kept = sum(at not in found for at in places)
        details = {
            "plan": "".join(wanted[at][0].upper() for at in places),
            "other_mode": sum(at in swapped and at in found for at in places),
            "unchanged": kept,
        }
        if error := _too_many(kept, len(places), self.config.tolerance):
            return Attacked(None, error, details)
        parts = [found.get(at, sentences.parts[at[1]]) for at in places]
        return Attacked(sentences.with_parts(parts).text, details=details)


_OTHER: dict[Mode, Mode] = {"compress": "expand", "expand": "compress"}


class Alternating(NonUniform):
    name = "alternating"


class Halves(NonUniform):
    name = "halves"


class RandomRuns(NonUniform):
    name = "runs"


# --- region by region ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Passage:
    """Consecutive sentences of one paragraph and one region."""

    item: AttackInput
    first: int
    end: int
    band: Band

    @property
    def words(self) -> int:
        return len(self.item.text.split())

    def miss(self, text: str) -> float:
        """How far a result is outside the band, as a share of the words before. Half a word is forgiven."""
        share = len(text.split()) / self.words
        return max(0.0, self.band[0] - share - 0.5 / self.words, share - self.band[1] - 0.5 / self.words)


class Regions:
    """Compresses up to three regions of the text, each to another share of its length."""

    def __init__(self, config: RegionsConfig | None = None) -> None:
        require_splitter()
        self.config = config or RegionsConfig()

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        split = [sentences_of(item.text) for item in texts]
        passages = [_passages(item, s, context.seed) for item, s in zip(texts, split, strict=True)]
        found: dict[str, str] = {}
        for attempt in range(self.config.attempts):
            for band in plans.BANDS:
                open_ones = [p for group in passages for p in group if p.band == band and _is_open(p, found)]
                settings = self.config.settings_for(band)
                inputs = [replace(p.item, id=f"{p.item.id}/try {attempt}") for p in open_ones]
                for passage, text in zip(
                    open_ones, _rewrite(self.config.compress, settings, inputs, context), strict=True
                ):
                    best = found.get(passage.item.id)
                    if text is not None and (best is None or passage.miss(text) < passage.miss(best)):
                        found[passage.item.id] = text
        return [self._result(s, group, found) for s, group in zip(split, passages, strict=True)]

    def _result(self, sentences: Pieces, passages: Sequence[Passage], found: Mapping[str, str]) -> Attacked:
        kept = sum(p.end - p.first for p in passages if p.item.id not in found)
        details: dict[str, Any] = {
            "bands": [list(p.band) for p in passages],
            "missed": sum(passage.miss(found.get(passage.item.id, passage.item.text)) > 0 for passage in passages),
            "unchanged": kept,
        }
        if error := _too_many(kept, len(sentences), self.config.tolerance):
            return Attacked(None, error, details)
        text = sentences.lead
        for passage in passages:
            text += found.get(passage.item.id, passage.item.text) + sentences.gaps[passage.end - 1]
        return Attacked(text, details=details)


def _passages(item: AttackInput, sentences: Pieces, seed: int) -> list[Passage]:
    """Regions, cut at the ends of paragraphs."""
    if not len(sentences):
        return []
    sizes = plans.region_sizes(len(sentences))
    bands = plans.region_bands(len(sizes), seed, item.id)
    passages, first = [], 0
    for size, band in zip(sizes, bands, strict=True):
        region_end = first + size
        while first < region_end:
            breaks = (i + 1 for i in range(first, region_end) if sentences.gaps[i].count("\n") > 1)
            end = next(breaks, region_end)
            passages.append(Passage(_part(item, f"passage {first}", sentences.span(first, end)), first, end, band))
            first = end
    return passages


def _is_open(passage: Passage, found: Mapping[str, str]) -> bool:
    best = found.get(passage.item.id)
    return best is None or passage.miss(best) > 0


# --- rewriters -----------------------------------------------------------------------------------------------------


def _rewrite(
    name: str, settings: Mapping[str, Any], inputs: Sequence[AttackInput], context: AttackContext
) -> list[str | None]:
    """What another attack makes of each input; None where it fails."""
    if not inputs:
        return []
    if context.load_attack is None:
        raise ConfigError(f"attack {name!r} cannot be loaded here", hint="run it with `wmbench run`")
    return [result.text for result in context.load_attack(name, settings)(inputs, context)]


def _part(item: AttackInput, what: str, text: str) -> AttackInput:
    return replace(item, id=f"{item.id}/{what}", text=text)


def _too_many(kept: int, total: int, tolerance: float) -> str | None:
    if not total:
        return "there is no sentence in it"
    if kept > tolerance * total or kept == total:
        return f"the rewriters cannot change {kept} of {total} sentences"
    return None
