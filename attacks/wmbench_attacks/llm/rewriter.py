"""One piece of text: ask, check the answer, ask again. Every answer is cached with the number of its attempt, so the
whole course of an interrupted or repeated run is played back without a call."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from wmbench_attacks.llm.cache import Answer, AnswerCache
from wmbench_attacks.llm.config import LlmConfig
from wmbench_attacks.llm.endpoint import Endpoint, Unanswered
from wmbench_attacks.llm.prompts import Band, Message, Prompt
from wmbench_attacks.rewriting import Said

_SMALLEST_ROOM = 64
_BYTES_PER_TOKEN = 2
"""Few: common tokenizers have 4 in English and 2 or 3 in other languages."""
_LARGEST_ROOM = 16_384
"""What current models allow."""
_THOUGHTS = re.compile(r"\A.*?</think>|\A\s*<think>.*", re.DOTALL)
"""What a reasoning model says to itself. Chat templates often open it in the prompt, so only its end is sure."""
_REFUSALS = ("refused", "content_filter")
_QUOTES = ('""', "''", "“”", "‘’", "«»")


class Unusable(Exception):
    """An answer that is no rewritten text; says why."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to ask for. A round trip has two, the second working on the answer of the first."""

    prompt: Prompt
    read: Callable[[str], str] = str.strip
    """From the answer to the text in it; raises Unusable."""
    band: Callable[[str], Band | None] = lambda text: None
    """The lengths that are right for a text; None: any."""
    takes_closest: bool = True
    """When none is right, the closest will do."""
    growth: float = 1.5
    """Longest usable answer, as a multiple of the text."""
    languages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rewritten(Said):
    """And what it took."""

    answers: int = 0
    """How many were asked for."""
    is_off_length: bool = False
    tokens_in: int = 0
    tokens_out: int = 0


class Rewriter:
    """Rewrites pieces of text through the cache and, for what is not there, the endpoint."""

    def __init__(self, attack: str, config: LlmConfig, seed: int, cache: AnswerCache, endpoint: Endpoint) -> None:
        self._attack = attack
        self._config = config
        self._seed = seed
        self._cache = cache
        self._endpoint = endpoint

    def rewrite(self, text: str, steps: tuple[Step, ...]) -> Rewritten:
        """All steps, one after the other."""
        answers: list[Answer] = []
        is_off_length = False
        try:
            for step in steps:
                text, missed = self._take(step, text, answers)
                is_off_length = is_off_length or missed
        except (Unanswered, Unusable) as failure:
            return Rewritten(None, str(failure), len(answers))
        tokens_in, tokens_out = sum(a.tokens_in for a in answers), sum(a.tokens_out for a in answers)
        return Rewritten(text, None, len(answers), is_off_length, tokens_in, tokens_out)

    def _take(self, step: Step, text: str, answers: list[Answer]) -> tuple[str, bool]:
        """A usable answer, and whether it misses the right length."""
        band = step.band(text)
        room = self._config.max_tokens or _room(text, step.growth)
        closest: tuple[int, str] | None = None
        previous: int | None = None
        fault = ""
        for attempt in range(self._config.attempts):
            answer = self._answer(step, attempt, step.prompt.messages(text, band, previous, **step.languages), room)
            answers.append(answer)
            if answer.finish == "length":
                room = min(2 * room, _LARGEST_ROOM)
            try:
                found = unquoted(step.read(usable_text(answer)), text)
            except Unusable as unusable:
                fault = str(unusable)
                continue
            words = len(found.split())
            miss = band.miss(words) if band else 0
            if not miss:
                return found, False
            if closest is None or miss < closest[0]:
                closest = miss, found
            previous = words
        if closest is not None and step.takes_closest:
            return closest[1], True
        if closest is not None and band is not None:
            fault = f"no answer has {band.fewest} to {band.most} words"
        raise Unusable(f"{fault} ({self._config.attempts} answers)")

    def _answer(self, step: Step, attempt: int, messages: list[Message], room: int) -> Answer:
        config = self._config
        parts = [self._attack, config.source, step.prompt.id, config.temperature, self._seed, attempt, messages]
        key = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        if (known := self._cache.get(key)) is not None:
            return known
        return self._cache.put(key, config.source, step.prompt.id, self._endpoint.ask(messages, room))


def usable_text(answer: Answer) -> str:
    """The text of an answer, without what models like to put around it."""
    if answer.finish == "length":
        raise Unusable("the answer was cut off")
    if answer.finish in _REFUSALS:
        raise Unusable(f"the model refused ({answer.finish})")
    text = _THOUGHTS.sub("", answer.text).strip()
    if not text:
        raise Unusable("the answer is empty")
    return text


def unquoted(answer: str, text: str) -> str:
    """An answer in quotation marks without them, unless the text begins with one, too."""
    inside = answer[1:-1]
    is_quoted = answer[:1] + answer[-1:] in _QUOTES and not {answer[0], answer[-1]} & set(inside)
    return inside.strip() if inside.strip() and is_quoted and text[:1] != answer[0] else answer


def _room(text: str, growth: float) -> int:
    """Tokens that an answer surely fits into, so that only an endless one is cut off."""
    return min(_LARGEST_ROOM, _SMALLEST_ROOM + int(growth * len(text.encode()) / _BYTES_PER_TOKEN))
