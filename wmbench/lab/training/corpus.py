"""Endless lab documents as token sequences. Which seeds are used for what is decided here and nowhere else."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wmbench.lab.language import language
from wmbench.lab.sample import Style, sample
from wmbench.runtime.codec import TokenizerCodec

TRAIN_SEEDS = range(1_000_000_000, 2_000_000_000)
"""Documents the models are trained on."""
HELD_OUT_SEEDS = range(2_000_000_000, 2_100_000_000)
"""Documents their loss is measured on. Null texts use seeds below one thousand million."""

# Longer than the answer window, so that every training answer fills it: the lab has no end-of-text inside an answer.
DOCUMENT_WORDS = 275
# A writer with favourite words and frames: the whole language has more frames than so small a model learns in an hour.
# (Mostly short sentences with even words left more room for a mark, but `mini` wrote worse: docs/decisions.md.)
WRITER = Style(lengths=(0.22**6, 0.44**6, 0.34**6), frames=6.0, words=6.0)
"""Whose documents `mini` learns from."""


@dataclass(frozen=True, slots=True)
class Example:
    prompt_ids: list[int]
    answer_ids: list[int]


def prompts() -> list[str]:
    return [prompt for topic in language().topics.values() for prompt in topic.prompts]


def documents(
    seeds: Sequence[int], style: Style = WRITER, target_words: int = DOCUMENT_WORDS
) -> Iterator[tuple[str, str]]:
    """(prompt, answer) for every seed; the prompt is drawn by the seed too."""
    every_prompt = prompts()
    for seed in seeds:
        prompt = every_prompt[random.Random(seed).randrange(len(every_prompt))]
        yield prompt, sample(prompt, seed, target_words=target_words, style=style).text


def examples(
    codec: TokenizerCodec, seeds: Sequence[int], answer_tokens: int, style: Style = WRITER
) -> Iterator[Example]:
    """Prompt and exactly `answer_tokens` answer ids; the few documents that are too short are left out."""
    for prompt, answer in documents(seeds, style):
        ids = codec.encode(answer)
        if len(ids) >= answer_tokens:
            yield Example(codec.encode_prompt(prompt), ids[:answer_tokens])
