"""From meaning to words: fill a frame, mend a/an, capitalise."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache

from wmbench.lab.language import EquivalenceClass, Frame, Proposition, Slot

# Written with a vowel but spoken with a consonant, and the other way round.
CONSONANT_STARTS = ("uni", "use", "usu", "uti", "eu", "one", "once", "ubi", "ufo", "ural", "uran")
VOWEL_STARTS = ("hour", "honest", "honor", "heir", "unin", "unim", "unid", "x-ray")
TRIES = 6


@cache
def takes_an(word: str) -> bool:
    """Whether the indefinite article before ``word`` is "an"."""
    word = word.lower()
    if word.startswith(VOWEL_STARTS):
        return True
    return word[:1] in "aeiou" and not word.startswith(CONSONANT_STARTS)


def draw_place(count: int, rng: random.Random, habit: float) -> int:
    """A place in a list: every place alike under habit 1, the earlier the likelier under a larger one."""
    return int(rng.random() ** habit * count)


def open_choice(group: EquivalenceClass, rng: random.Random, recent: dict[str, str], habit: float = 1.0) -> str:
    """A member that may be used outside attacks, and not the one used last."""
    members = group.open_members
    place = draw_place(len(members), rng, habit)
    if members[place] == recent.get(group.id):
        place = (place + 1) % len(members)
    return members[place]


class Chooser:
    """Picks class members and wordings for one document. Attacks derive their own (see ``paraphrase``)."""

    def __init__(self, rng: random.Random, habit: float = 1.0) -> None:
        self.rng, self.habit = rng, habit
        self.recent: dict[str, str] = {}

    def member(self, group: EquivalenceClass) -> str:
        """A member of ``group``."""
        member = open_choice(group, self.rng, self.recent, self.habit)
        self.recent[group.id] = member
        return member

    def wording(self, name: str, wordings: tuple[str, ...]) -> str:
        """One way to word a content value."""
        place = draw_place(len(wordings), self.rng, self.habit)
        if wordings[place] == self.recent.get(name):
            place = (place + 1) % len(wordings)
        self.recent[name] = wordings[place]
        return wordings[place]


def fill(frame: Frame, proposition: Proposition, values: Mapping[str, int], chooser: Chooser) -> str:
    """The frame with its gaps filled: one sentence, not yet capitalised, without a doubled word if that can be had."""
    raw = ""
    for _ in range(TRIES):
        raw = "".join(
            part if isinstance(part, str) else fill_slot(part, proposition, values, chooser) for part in frame.parts
        )
        words, doubled = mend(raw)
        if not doubled:
            return words
    return mend(raw)[0]


def fill_slot(slot: Slot, proposition: Proposition, values: Mapping[str, int], chooser: Chooser) -> str:
    """The words of one gap."""
    if slot.group is None:
        found = chooser.wording(slot.name, proposition.values[slot.name][values.get(slot.name, 0)])
    else:
        found = chooser.member(slot.group)
    return slot.prefix + found + slot.suffix if slot.prefix or slot.suffix else found


def mend(raw: str) -> tuple[str, bool]:
    """Put a and an right; also tell whether a word stands twice in a row."""
    words = raw.split(" ")
    doubled = False
    before = ""
    for place, word in enumerate(words):
        if word == before:
            doubled = True
        before = word
        if word in ("a", "an", "A", "An") and place + 1 < len(words):
            article = "an" if takes_an(words[place + 1]) else "a"
            words[place] = article.capitalize() if word[0] == "A" else article
    return " ".join(words), doubled


def sentence(raw: str, opener: str = "", closer: str = "") -> str:
    """A finished sentence: an optional opener before it and an optional closer before its full stop."""
    if closer:
        raw = f"{raw[:-1]}{closer}{raw[-1]}"
    if opener:
        raw = f"{opener} {raw}"
    return raw[:1].upper() + raw[1:]


def suits(opener: str, raw: str) -> bool:
    """Whether an opener may stand before this sentence: not when both begin alike or meet in the same word."""
    first = raw.split(" ", 1)[0].strip(",")
    words = opener.replace(",", "").split(" ")
    return first not in (words[0], words[-1])
