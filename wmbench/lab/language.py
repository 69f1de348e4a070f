"""The lab language as typed, frozen objects: topics, propositions, frames and equivalence classes.

The words live in ``data/``; ``loading`` reads them. Everything a sampler or a parser needs in its inner loop is
compiled once, because a null set asks for forty thousand documents.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

KINDS = ("claim", "reason", "step", "example", "caveat", "comparison", "conclusion")
LENGTHS = ("short", "plain", "long")
DOMAINS = ("finance", "howto", "explain")
# What an opener does for the sentence behind it; a hedge does nothing.
ROLES = (
    *("opening", "addition", "emphasis", "reason", "first", "next", "finally"),
    *("example", "contrast", "comparison", "conclusion", "hedge"),
)
# Words each length may have; the check reports frames outside (with slack for long class members).
BANDS = {"short": (5, 12), "plain": (9, 19), "long": (15, 32)}
HELD_OUT_SHARE = 0.2


def stable_hash(text: str) -> int:
    """A 64-bit hash that is the same in every process, unlike Python's own ``hash``."""
    data = text.encode("utf-8", "surrogatepass")  # a text to be attacked may hold lone surrogates
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def seeded(*key: object) -> random.Random:
    """A generator of its own for this key, so that no caller can disturb another."""
    return random.Random(stable_hash("\x1f".join(str(part) for part in key)))


def drawn_for_attacks(identity: str) -> bool:
    """Whether the item with this id belongs to the fifth that only attacks may use."""
    return stable_hash("held-out\x1f" + identity) / 2**64 < HELD_OUT_SHARE


@dataclass(frozen=True, slots=True)
class EquivalenceClass:
    """Words or phrases that may stand for each other in every frame that uses the class."""

    id: str
    members: tuple[str, ...]
    held_out: bool

    @property
    def open_members(self) -> tuple[str, ...]:
        """What may be used outside attacks: of a held-out class only the first member."""
        return self.members[:1] if self.held_out else self.members


@dataclass(frozen=True, slots=True)
class Slot:
    """A gap in a frame: filled from a class, or (``group`` is None) with a content value called ``name``."""

    name: str
    group: EquivalenceClass | None
    prefix: str = ""
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """A sentence with gaps. ``parts`` alternates literals (with their spaces) and slots."""

    id: str
    length: str
    text: str
    parts: tuple[str | Slot, ...]
    held_out: bool


@dataclass(frozen=True, slots=True)
class Proposition:
    """One thing that can be said. ``values`` maps a content slot to its meanings, each a tuple of wordings."""

    id: str
    kind: str
    shared: bool
    values: Mapping[str, tuple[tuple[str, ...], ...]]
    frames: tuple[Frame, ...]
    sizes: tuple[float, ...]  # mean words of each frame
    open_frames: Mapping[str, tuple[int, ...]]  # by length, the numbers of the frames that are not held out
    place: int  # in its file: the order of steps
    at: str = "any"  # a shared step may say that it is the "first" or the "last"

    @property
    def name(self) -> str:
        """The id without its topic."""
        return self.id.split("/", 1)[1]


@dataclass(frozen=True, slots=True)
class Topic:
    """One subject: prompts that ask about it and everything that can be said about it."""

    id: str
    domain: str
    name: str
    prompts: tuple[str, ...]
    classes: str
    propositions: tuple[Proposition, ...]


@dataclass(frozen=True, slots=True)
class Statement:
    """A proposition with its content values filled in: what one sentence means."""

    proposition: str
    values: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a document says, sentence by sentence."""

    topic: str
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A text of the lab language and what it means."""

    text: str
    meaning: Meaning


@dataclass(frozen=True)
class Language:
    """Everything loaded. ``problems`` lists what the data files got wrong; the check prints it."""

    topics: Mapping[str, Topic]
    classes: Mapping[str, EquivalenceClass]
    openers: Mapping[str, tuple[str, ...]]
    closers: tuple[str, ...]
    prompts: Mapping[str, str]
    problems: tuple[str, ...]

    def topic(self, prompt_or_topic: str) -> Topic:
        """The topic with this id, or the one this prompt asks about."""
        key = self.prompts.get(prompt_or_topic.strip(), prompt_or_topic)
        if key not in self.topics:
            raise ValueError(f"unknown lab prompt or topic: {prompt_or_topic!r}")
        return self.topics[key]

    def of_domain(self, domain: str) -> tuple[Topic, ...]:
        """The topics of one domain, in the order of their ids."""
        return tuple(topic for topic in self.topics.values() if topic.domain == domain)


@lru_cache(maxsize=1)
def language() -> Language:
    """The language that ships with the package, read once per process."""
    from wmbench.lab.loading import load, package_data

    return load(package_data())
