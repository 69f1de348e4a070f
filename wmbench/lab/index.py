"""The frames as word patterns, and an index that finds the few that could match a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from wmbench.lab.language import Frame, Language, Proposition, Slot, Topic, language

MARKS = {mark: f" {mark}" for mark in ",.?!"}
END = ""  # the key under which a trie keeps what ends there
Trie = dict[str, Any]


def tokenise(text: str) -> list[str]:
    """Lower-case words and punctuation marks. "an" counts as "a": the article follows from the next word."""
    for mark, apart in MARKS.items():
        if mark in text:
            text = text.replace(mark, apart)
    return ["a" if word == "an" else word for word in text.lower().split()]


@dataclass(frozen=True, slots=True)
class Gap:
    """A slot as the matcher sees it. The trie ends in member texts, or in (topic, value) pairs for content."""

    slot: Slot
    trie: Trie

    def ends(self, tokens: list[str], start: int) -> list[tuple[int, Any]]:
        """Where a filler that begins at ``start`` may end, longest first, with what the trie keeps there."""
        found = []
        node = self.trie
        for place in range(start, len(tokens)):
            after = node.get(tokens[place])
            if after is None:
                break
            node = after
            if END in node:
                found.append((place + 1, node[END]))
        found.reverse()
        return found


@dataclass(frozen=True, slots=True)
class Pattern:
    """A frame as a sequence of words and gaps, with the propositions (one per topic) that own it."""

    frame: Frame
    parts: tuple[str | Gap, ...]
    words: frozenset[str]
    owners: dict[str, Proposition]  # by topic


class Index:
    """All patterns of a language, found by their rarest literal word."""

    def __init__(self, lab: Language) -> None:
        self.lab = lab
        self.patterns = list(self._patterns(lab))
        counts = Counter(word for pattern in self.patterns for word in pattern.words)
        self.by_word: dict[str, list[Pattern]] = {}
        self.weights = {word: 1.0 / (1.0 + count) ** 0.5 for word, count in counts.items()}
        self.holders: dict[str, list[int]] = {}
        for number, pattern in enumerate(self.patterns):
            key = min(pattern.words, key=lambda word: (counts[word], word))
            self.by_word.setdefault(key, []).append(pattern)
            for word in pattern.words:
                self.holders.setdefault(word, []).append(number)
        self.openers: Trie = {}
        for role, phrases in lab.openers.items():
            for phrase in phrases:
                insert(self.openers, tokenise(phrase), (role, phrase))
        self.closers = sorted((tokenise(phrase) for phrase in lab.closers), key=len, reverse=True)
        self.phrases: Trie = {}
        for group in lab.classes.values():
            for member in group.members:
                insert(self.phrases, tokenise(member), group.id)
        self.wordings: Trie = {}
        """Content phrases of two words or more; each ends in its topics, with all wordings of its value there."""
        for topic in lab.topics.values():
            values = (value for one in topic.propositions for values in one.values.values() for value in values)
            for wordings in dict.fromkeys(values):
                for words in map(tokenise, wordings):
                    if len(words) > 1:
                        insert(self.wordings, words, (topic.id, wordings))

    def candidates(self, tokens: list[str]) -> Iterator[Pattern]:
        """Patterns all of whose literal words occur in the sentence."""
        present = set(tokens)
        for word in present:
            for pattern in self.by_word.get(word, ()):
                if pattern.words <= present:
                    yield pattern

    def alike(self, tokens: list[str], count: int) -> list[Pattern]:
        """The patterns that share most (and the rarest) literal words with the sentence, for its size."""
        scores: dict[int, float] = {}
        for word in set(tokens):
            weight = self.weights.get(word, 0.0)
            # A word that stands in nearly every frame tells nothing and would cost the most.
            if weight > 0.02:
                for number in self.holders[word]:
                    scores[number] = scores.get(number, 0.0) + weight
        ranked = sorted(scores, key=lambda n: (-scores[n] / (2 + len(self.patterns[n].words)) ** 0.5, n))
        return [self.patterns[number] for number in ranked[:count]]

    @staticmethod
    def _patterns(lab: Language) -> Iterator[Pattern]:
        owners: dict[str, tuple[Frame, list[tuple[Topic, Proposition]]]] = {}
        for topic in lab.topics.values():
            for proposition in topic.propositions:
                for frame in proposition.frames:
                    owners.setdefault(frame.id, (frame, []))[1].append((topic, proposition))
        tries: dict[tuple[str, ...], Trie] = {}
        for frame, pairs in owners.values():
            parts: list[str | Gap] = []
            for part in frame.parts:
                if isinstance(part, str):
                    parts.extend(tokenise(part))
                else:
                    parts.append(Gap(part, slot_trie(part, pairs, tries)))
            words = frozenset(part for part in parts if isinstance(part, str))
            yield Pattern(frame, tuple(parts), words, {topic.id: proposition for topic, proposition in pairs})


def slot_trie(slot: Slot, owners: list[tuple[Topic, Proposition]], tries: dict[tuple[str, ...], Trie]) -> Trie:
    """The fillers of a slot. Tries are shared: between all frames of a class, and of one argument of a domain."""
    if slot.group is not None:
        key = ("class", slot.group.id, *slot.group.members, slot.prefix, slot.suffix)
        fillers: Iterable[tuple[str, Any]] = ((member, member) for member in slot.group.members)
    else:
        home = owners[0][0].domain if owners[0][1].shared else owners[0][1].id
        same = all(proposition.values[slot.name] == owners[0][1].values[slot.name] for _, proposition in owners)
        key = ("value", home, owners[0][1].name if same else "", slot.name, slot.prefix, slot.suffix)
        fillers = (
            (wording, (topic.id, number))
            for topic, proposition in owners
            for number, wordings in enumerate(proposition.values[slot.name])
            for wording in wordings
        )
    if key not in tries:
        tries[key] = {}
        for text, payload in fillers:
            insert(tries[key], tokenise(slot.prefix + text + slot.suffix), payload)
    return tries[key]


def insert(trie: Trie, words: list[str], payload: Any) -> None:
    """Add a phrase to a trie; what several phrases share is kept as a list."""
    for word in words:
        trie = trie.setdefault(word, {})
    trie.setdefault(END, []).append(payload)


@lru_cache(maxsize=1)
def index() -> Index:
    """The index of the language that ships with the package."""
    return Index(language())
