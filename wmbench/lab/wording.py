"""Other words for a sentence: every way an attack may say it again."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from wmbench.lab.index import Index, tokenise
from wmbench.lab.language import EquivalenceClass, Frame, Topic
from wmbench.lab.parse import ParsedSentence, Reading, longest_phrase, openers_of
from wmbench.lab.realise import Chooser, fill, mend

HeldOut = Literal["with", "without", "only"]
Size = Literal["any", "short", "long"]
FILLS = 3  # fillings tried per frame; the one that keeps the fewest neighbouring words wins


@dataclass(frozen=True, slots=True)
class Option:
    """One way to say a sentence: words without opener and closer, not capitalised."""

    raw: str
    words: int
    frame: Frame | None
    kept: float  # share of the sentence's old word pairs that are still there


class AttackChooser(Chooser):
    """Chooses other members than the sentence had, from the part of the language that the attack may use."""

    def __init__(self, rng: random.Random, held_out: HeldOut, size: Size, sentence: ParsedSentence) -> None:
        super().__init__(rng)
        self.held_out = held_out
        self.size = size
        self.before = dict(sentence.reading.members) if sentence.reading else {}
        self.text = " ".join(tokenise(sentence.text))

    def member(self, group: EquivalenceClass) -> str:
        """A member of ``group``."""
        before = self.before.get(group.id)
        if self.held_out == "only" and not group.held_out:
            # This attack is about the held-out words alone: all others stay.
            return before or self.pick(group.open_members)
        pool = group.open_members if self.held_out == "without" else group.members
        if self.held_out == "only":
            pool = group.members[1:] or group.members
        return self.pick([one for one in pool if one != before] or pool)

    def wording(self, name: str, wordings: tuple[str, ...]) -> str:
        """A wording of a content value that the sentence did not use."""
        used = [one for one in wordings if " ".join(tokenise(one)) in self.text]
        if self.held_out == "only" and used:
            return used[0]
        return self.pick([one for one in wordings if one not in used] or wordings)

    def pick(self, pool: Sequence[str]) -> str:
        """One of the pool; an extreme one when the attack wants few or many words."""
        if self.size == "any" or len(pool) == 1:
            return pool[int(self.rng.random() * len(pool))]
        lengths = [len(one.split()) for one in pool]
        limit = min(lengths) if self.size == "short" else max(lengths)
        extreme = [one for one, length in zip(pool, lengths, strict=True) if length == limit]
        return extreme[int(self.rng.random() * len(extreme))]


def options(sentence: ParsedSentence, rng: random.Random, held_out: HeldOut, sizes: Sequence[Size]) -> list[Option]:
    """Ways to say a recognised sentence again: every frame the attack may use, for every wanted size of filling."""
    reading = sentence.reading
    assert reading is not None
    values = dict(reading.values)
    before = pairs(sentence.text)
    found = []
    for frame in frames_for(reading, held_out):
        for size in sizes:
            chooser = AttackChooser(rng, held_out, size, sentence)
            tries = [fill(frame, reading.proposition, values, chooser) for _ in range(FILLS)]
            sound = [raw for raw in tries if not mend(raw)[1]] or tries[:1]
            kept, raw = min((survival(before, raw), raw) for raw in sound)
            # A fixed filling may double a word ("given that that"); then the free one has to do.
            if size == "any" or not mend(raw)[1]:
                found.append(Option(raw, len(raw.split()), frame, kept))
    return found


def frames_for(reading: Reading, held_out: HeldOut) -> list[Frame]:
    """The frames an attack may use for a sentence."""
    frames = reading.proposition.frames
    if held_out == "without":
        return [frame for frame in frames if not frame.held_out]
    if held_out == "only":
        return [frame for frame in frames if frame.held_out or frame is reading.frame]
    return list(frames)


def pairs(text: str) -> list[tuple[str, str]]:
    """Neighbouring words of a text, punctuation left out."""
    words = [token for token in tokenise(text) if token[0].isalnum()]
    return list(pairwise(words))


def survival(before: list[tuple[str, str]], after: str) -> float:
    """Which share of the word pairs is still found in the new text."""
    if not before:
        return 0.0
    now = set(pairs(after))
    return sum(pair in now for pair in before) / len(before)


def replace_phrases(
    sentence: ParsedSentence, rng: random.Random, held_out: HeldOut, size: Size, topic: Topic | None, lab: Index
) -> Option:
    """A sentence that was not recognised, with its known phrases replaced; all other words stay."""
    cased = cased_tokens(sentence.text)
    plain = ["a" if word.lower() == "an" else word.lower() for word in cased]
    start = next((end for end, _, _ in openers_of(plain, lab)), 0) if sentence.opener else 0
    chooser = AttackChooser(rng, held_out, size, sentence)
    words: list[str] = []
    place = start
    while place < len(plain):
        end, other = other_words(plain, place, topic, chooser, lab)
        words.extend([other] if other else cased[place:end])
        place = end
    raw = mend(join(words))[0]
    if start == 0 or not words:
        raw = raw[:1].lower() + raw[1:] if raw.split(" ", 1)[0] not in ("I", "I'm") else raw
    return Option(raw, len(raw.split()), None, survival(pairs(sentence.text), raw))


def other_words(
    tokens: list[str], start: int, topic: Topic | None, chooser: AttackChooser, lab: Index
) -> tuple[int, str]:
    """Where the longest phrase from ``start`` that can be replaced ends, and what to say instead; nothing when none
    can."""
    ends: list[tuple[int, str]] = []
    end, found = longest_phrase(tokens, start, lab.wordings)
    if end > start:
        ends.append((end, other_wording(" ".join(tokens[start:end]), found, topic, chooser)))
    end, names = longest_phrase(tokens, start, lab.phrases)
    if end > start:
        ends.append((end, other_member(" ".join(tokens[start:end]), names, topic, chooser, lab)))
    replaceable = [one for one in ends if one[1]]
    return max(replaceable or ends or [(start + 1, "")], key=lambda one: one[0])


def other_wording(
    phrase: str, found: list[tuple[str, tuple[str, ...]]], topic: Topic | None, chooser: AttackChooser
) -> str:
    """Another wording for a content phrase: one that says the same wherever the topic uses the phrase."""
    pools = [wordings for owner, wordings in found if topic and owner == topic.id]
    if not pools or chooser.held_out == "only":
        return ""
    shared = [one for one in pools[0] if all(one in pool for pool in pools) and " ".join(tokenise(one)) != phrase]
    return chooser.pick(shared) if shared else ""


def other_member(phrase: str, names: list[str], topic: Topic | None, chooser: AttackChooser, lab: Index) -> str:
    """Another member for a phrase: one that is right in every class the phrase could have come from."""
    files = {"common", topic.classes} if topic else {"common"}
    groups = [lab.lab.classes[name] for name in names if name.split("/", 1)[0] in files]
    groups = [group for group in groups if chooser.held_out != "only" or group.held_out]
    if not groups:
        return ""
    pools = [group.open_members if chooser.held_out == "without" else group.members for group in groups]
    shared = [one for one in pools[0] if all(one in pool for pool in pools) and one != phrase]
    return chooser.pick(shared) if shared else ""


def cased_tokens(text: str) -> list[str]:
    """Words and marks as they are written."""
    for mark in ",.?!":
        text = text.replace(mark, f" {mark}")
    return text.split()


def join(words: list[str]) -> str:
    """Words and marks as running text."""
    text = " ".join(words)
    for mark in ",.?!":
        text = text.replace(f" {mark}", mark)
    return text
