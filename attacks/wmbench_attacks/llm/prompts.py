"""What the model is told. A change of a word is a new version: tests pin the hash of each."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass

Message = dict[str, str]

SYSTEM = "You are a careful editor. You change the wording of a text and never what it says."
REMINDER = (
    "Your last version had {previous_word_count} words, which is outside these limits. Count while you write, and "
    "stay between {target_min_words} and {target_max_words} words."
)


@dataclass(frozen=True, slots=True)
class Band:
    """How many words a rewritten text should have."""

    fewest: int
    most: int

    @classmethod
    def of(cls, words: int, shortest: float, longest: float) -> Band:
        """Both ends inside the shares, in floating point as published: 70% of 90 words are 62.

        The upper end gives way when no whole number lies inside.
        """
        fewest = math.ceil(shortest * words)
        return cls(fewest, max(fewest, math.floor(longest * words)))

    @property
    def middle(self) -> int:
        return (self.fewest + self.most) // 2

    def miss(self, words: int) -> int:
        """Words too few or too many."""
        return max(self.fewest - words, words - self.most, 0)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One kind of request."""

    name: str
    version: int
    task: str
    """Instructions; placeholders are the length targets and languages."""
    body: str
    """The text itself; its placeholder is `sentence` or `text`."""

    @property
    def digest(self) -> str:
        parts = [self.name, self.version, SYSTEM, REMINDER, self.task, self.body]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @property
    def id(self) -> str:
        """For results: `compress-sentence/1:0123456789ab`."""
        return f"{self.name}/{self.version}:{self.digest[:12]}"

    def messages(
        self, text: str, band: Band | None = None, previous: int | None = None, **languages: str
    ) -> list[Message]:
        """The request for one text; `previous` is the number of words of an answer that missed the band."""
        targets: dict[str, object] = {"original_word_count": len(text.split()), "previous_word_count": previous}
        if band is not None:
            targets |= {"target_min_words": band.fewest, "target_max_words": band.most, "target_words": band.middle}
        lines = [self.task.format(**targets, **languages)]
        if previous is not None:
            lines.append(REMINDER.format(**targets))
        lines.append("\n" + self.body.format(sentence=text, text=text))
        return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n".join(lines)}]


_KEEP = "Every fact, name, number and technical term of the original stays."
_ONLY_SENTENCE = "Answer with the new sentence and nothing else: no remarks, no quotation marks around it."
_ONLY_TEXT = "Answer with the new text and nothing else: no heading, no remarks."
_SENTENCE = "Sentence:\n{sentence}"
_TEXT = "Text:\n{text}"


def _lines(*lines: str) -> str:
    return "\n".join(lines)


REWRITE_SENTENCE = Prompt(
    "rewrite-sentence",
    1,
    _lines(
        "Say the sentence below again in other words, in natural and fluent language.",
        _KEEP,
        "Build it differently and choose other words wherever the meaning allows.",
        "It stays one sentence of about the same length.",
        _ONLY_SENTENCE,
    ),
    _SENTENCE,
)
COMPRESS_SENTENCE = Prompt(
    "compress-sentence",
    1,
    _lines(
        "Make the sentence below shorter.",
        "It has about {original_word_count} words; "
        "your version has at least {target_min_words} and at most {target_max_words} words.",
        _KEEP + " So does every restriction that matters.",
        "Leave out only what is redundant or wordy; the claim stays the same and nothing is added.",
        "It stays exactly one sentence.",
        _ONLY_SENTENCE,
    ),
    _SENTENCE,
)
EXPAND_SENTENCE = Prompt(
    "expand-sentence",
    1,
    _lines(
        "Say the sentence below in a longer and more explicit way.",
        _KEEP,
        "Spell out what is only implied and use fuller phrases, "
        "but bring in no new fact, example, number, name or claim.",
        "Build it differently and choose other words wherever the meaning allows.",
        _ONLY_SENTENCE,
    ),
    _SENTENCE,
)
REWRITE_DOCUMENT = Prompt(
    "rewrite-document",
    1,
    _lines(
        "Write the text below anew, in natural and fluent language.",
        _KEEP,
        "Change its order, its sentences and its words as far as the meaning allows; "
        "sentences and paragraphs may be moved, split and joined.",
        "Nothing is summarised, left out or added, and the whole has about the same length.",
        _ONLY_TEXT,
    ),
    _TEXT,
)
COMPRESS_DOCUMENT = Prompt(
    "compress-document",
    1,
    _lines(
        "Write a shorter version of the text below.",
        "It has about {original_word_count} words, counted by spaces; your version has at least {target_min_words} "
        "and at most {target_max_words} words, best {target_words}.",
        _KEEP,
        "Cut repetition and wordiness. Sentences and paragraphs may be moved, split and joined; "
        "nothing essential is lost, no claim changes, nothing is added.",
        _ONLY_TEXT,
    ),
    _TEXT,
)
EXPAND_DOCUMENT = Prompt(
    "expand-document",
    1,
    _lines(
        "Write a longer and more explicit version of the text below.",
        "It has about {original_word_count} words, counted by spaces; your version has at least {target_min_words} "
        "and at most {target_max_words} words, best {target_words}.",
        _KEEP,
        "Spell out what is only implied and use fuller phrases. Sentences and paragraphs may be moved, split and "
        "joined, but no new fact, example, number, name or claim comes in.",
        _ONLY_TEXT,
    ),
    _TEXT,
)
TRANSLATE = Prompt(
    "translate",
    1,
    _lines(
        "Translate the text below from {source} into {target}: completely, faithfully and in natural language.",
        "Keep its paragraphs.",
        "Answer with the translation and nothing else.",
    ),
    _TEXT,
)
ROUND_TRIP = Prompt(
    "round-trip",
    1,
    _lines(
        "Translate the text below from {source} into {target}.",
        "Then translate your {target} version back into {source}, from that version alone.",
        "Answer with one JSON object and nothing else: "
        'the field "there" holds the {target} version, the field "back" the {source} version.',
    ),
    _TEXT,
)
PROMPTS = (
    REWRITE_SENTENCE,
    COMPRESS_SENTENCE,
    EXPAND_SENTENCE,
    REWRITE_DOCUMENT,
    COMPRESS_DOCUMENT,
    EXPAND_DOCUMENT,
    TRANSLATE,
    ROUND_TRIP,
)
