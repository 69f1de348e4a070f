"""Which prompts are answered, and how often.

Plainly: every prompt once. With `retries` an answer that the filters drop is drawn again, so many times at most: the
rule of the published baselines (10), here the same for all schemes. With `top_up` prompts are answered in order until
as many texts are kept as were asked for. Both look at finished texts only, so batches and interruptions change nothing:
the answers that are needed are always a part of those that the finished run has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from wmbench.types import Sample

PROMPTS_PER_TEXT: Final = 3
"""Prompts that topping up may use for each text that is wanted."""
_ATTEMPT: Final = "~"
"""Between the id of a prompt and the number of a further attempt."""
_NOT_RETRIED: Final = "duplicate_text"
"""A second draw that repeats another sample's text is no better than the first."""

Reasons = Mapping[str, str | None]
"""Why a finished answer was dropped, by id; None: it is kept."""


def attempts(sample: Sample, retries: int) -> Iterator[Sample]:
    """The first answer and its retries, each with randomness of its own."""
    yield sample
    for number in range(1, retries + 1):
        yield replace(sample, id=f"{sample.id}{_ATTEMPT}{number}", meta={**sample.meta, "attempt": number})


def prompt_id(answer: str) -> str:
    """Of an answer's id."""
    head, mark, number = answer.rpartition(_ATTEMPT)
    return head if mark and number.isdigit() else answer


def next_draws(prompts: Sequence[Sample], reasons: Reasons, *, wanted: int | None, retries: int) -> list[Sample]:
    """What is to be answered now. Empty when nothing is missing, or when prompts and retries are used up."""
    draws: list[Sample] = []
    hopeful = 0  # prompts with a kept answer, or with one that may still be kept
    for prompt in prompts:
        if hopeful == wanted:
            break
        found = _next_attempt(prompt, reasons, retries)
        hopeful += found is not False
        draws += [found] if isinstance(found, Sample) else []
    return draws


def _next_attempt(prompt: Sample, reasons: Reasons, retries: int) -> Sample | bool:
    """The attempt that is missing; otherwise whether the prompt has a kept answer."""
    for attempt in attempts(prompt, retries):
        if attempt.id not in reasons:
            return attempt
        if reasons[attempt.id] in (None, _NOT_RETRIED):
            return reasons[attempt.id] is None
    return False
