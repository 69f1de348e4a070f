"""From words to meaning: recognise sentences, and say how much of a text is lab language."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wmbench.lab.align import Alignment, align
from wmbench.lab.index import END, Gap, Index, Pattern, Trie, index, tokenise
from wmbench.lab.language import Frame, Meaning, Proposition, Statement

SENTENCE_ENDS = (".", "?", "!")
FRAGMENT = 4  # words in a row that a frame must account for, to count as known
NEAR_CANDIDATES = 5


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to understand a sentence."""

    proposition: Proposition
    topic: str
    frame: Frame
    values: tuple[tuple[str, int], ...]
    members: tuple[tuple[str, str], ...]  # class id and the member that was used
    exact: bool = True

    @property
    def statement(self) -> Statement:
        """What the sentence says."""
        return Statement(self.proposition.id, self.values)


@dataclass(frozen=True, slots=True)
class ParsedSentence:
    """A sentence of a text: its opener, closer and, where recognised, its reading."""

    text: str
    role: str
    opener: str
    closer: str
    reading: Reading | None
    alignment: Alignment | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares of the words of a text: in recognised sentences; also in known phrases; also in pieces of frames."""

    sentences: float
    phrases: float
    fragments: float


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, as they stand."""
    sentences: list[str] = []
    words: list[str] = []
    for word in text.split():
        words.append(word)
        if word.endswith(SENTENCE_ENDS):
            sentences.append(" ".join(words))
            words = []
    if words:
        sentences.append(" ".join(words))
    return sentences


def parse(text: str, *, near: bool = False, known: Index | None = None) -> list[ParsedSentence]:
    """Read a text sentence by sentence. With ``near``, one with a few wrong words is read as what it resembles."""
    lab = known or index()
    drafts = [read_sentence(sentence, lab) for sentence in split_sentences(text)]
    votes = Counter(topic for _, readings in drafts for topic in {reading.topic for reading in readings})
    found = []
    for parsed, readings in drafts:
        # The same words may belong to several topics (shared templates): believe the rest of the document.
        best = max(readings, key=lambda reading: (votes[reading.topic], reading.topic), default=None)
        if best is not None:
            found.append(replace_reading(parsed, best, None))
        elif near:
            found.append(read_near(parsed, votes, lab))
        else:
            found.append(parsed)
    return found


def meaning_of(parsed: list[ParsedSentence]) -> Meaning:
    """What the recognised sentences say."""
    readings = [sentence.reading for sentence in parsed if sentence.reading]
    topics = Counter(reading.topic for reading in readings)
    topic = topics.most_common(1)[0][0] if topics else ""
    return Meaning(topic, tuple(reading.statement for reading in readings))


def read_sentence(text: str, lab: Index) -> tuple[ParsedSentence, list[Reading]]:
    """A sentence with its opener and closer set apart, and all exact readings of the rest."""
    tokens = tokenise(text)
    plain = list(readings_of(tokens, lab))
    if plain:
        return ParsedSentence(text, "", "", "", None), plain
    longest = ParsedSentence(text, "", "", "", None)
    for start, role, opener in [*openers_of(tokens, lab), (0, "", "")]:
        for end, closer in [*closers_of(tokens, lab), (len(tokens), "")]:
            readings = list(readings_of([*tokens[start:end], *tokens[-1:]] if closer else tokens[start:], lab))
            parsed = ParsedSentence(text, role, opener, closer, None)
            if readings:
                return parsed, readings
            if not longest.opener and not longest.closer:
                longest = parsed
    return longest, []


def openers_of(tokens: list[str], lab: Index) -> list[tuple[int, str, str]]:
    """Known openers at the start of a sentence, longest first: where they end, their role and their words."""
    found: list[tuple[int, str, str]] = []
    node = lab.openers
    for place, token in enumerate(tokens):
        if token not in node:
            break
        node = node[token]
        if END in node:
            found.extend((place + 1, role, phrase) for role, phrase in node[END][:1])
    return found[::-1]


def closers_of(tokens: list[str], lab: Index) -> list[tuple[int, str]]:
    """Known closers before the final mark: where they begin and their words."""
    found = []
    for words in lab.closers:
        start = len(tokens) - 1 - len(words)
        if start > 0 and tokens[start:-1] == words:
            found.append((start, " ".join(words)))
    return found


def readings_of(tokens: list[str], lab: Index) -> Iterator[Reading]:
    """Every exact reading of a bare sentence."""
    for pattern in lab.candidates(tokens):
        fillers = match(pattern.parts, tokens, 0, 0)
        if fillers is not None:
            yield from interpret(pattern, fillers, True)


def match(parts: tuple[str | Gap, ...], tokens: list[str], part: int, start: int) -> list[tuple[Gap, Any]] | None:
    """Fill the gaps so that the pattern spells the tokens, preferring long fillers; None when it cannot be done."""
    while part < len(parts):
        here = parts[part]
        if not isinstance(here, str):
            for end, payload in here.ends(tokens, start):
                rest = match(parts, tokens, part + 1, end)
                if rest is not None:
                    return [(here, payload), *rest]
            return None
        if start >= len(tokens) or tokens[start] != here:
            return None
        part += 1
        start += 1
    return [] if start == len(tokens) else None


def interpret(pattern: Pattern, fillers: list[tuple[Gap, Any]], exact: bool) -> Iterator[Reading]:
    """What a match says, for every topic that could have said it."""
    members = tuple(
        (gap.slot.group.id, payload[0]) for gap, payload in fillers if gap.slot.group is not None and payload
    )
    content = [(gap.slot.name, payload) for gap, payload in fillers if gap.slot.group is None]
    for topic, proposition in pattern.owners.items():
        values: dict[str, int] = {}
        for name, payload in content:
            numbers = [number for owner, number in payload if owner == topic]
            if not numbers or values.get(name, numbers[0]) not in numbers:
                break
            values.setdefault(name, numbers[0])
        else:
            # A content slot that this frame does not mention has its first value: the document did not say.
            full = {name: values.get(name, 0) for name in proposition.values}
            yield Reading(proposition, topic, pattern.frame, tuple(sorted(full.items())), members, exact)


def replace_reading(parsed: ParsedSentence, reading: Reading | None, alignment: Alignment | None) -> ParsedSentence:
    """The same sentence with this reading."""
    return ParsedSentence(parsed.text, parsed.role, parsed.opener, parsed.closer, reading, alignment)


def read_near(parsed: ParsedSentence, votes: Counter[str], lab: Index) -> ParsedSentence:
    """Read a sentence with slips as the frame it comes closest to, if it comes close enough."""
    tokens = tokenise(parsed.text)
    skipped = next((start for start, _, _ in openers_of(tokens, lab)), 0)
    best: tuple[float, Alignment, Pattern] | None = None
    for pattern in lab.alike(tokens[skipped:], NEAR_CANDIDATES):
        found = align(pattern, tokens[skipped:])
        if best is None or found.cost < best[0]:
            best = (found.cost, found, pattern)
    if best is None:
        return parsed
    _, alignment, pattern = best
    shifted = alignment.shifted(skipped)
    reading = None
    if alignment.close_enough:
        readings = list(interpret(pattern, list(alignment.fillers), False))
        reading = max(readings, key=lambda one: (votes[one.topic], one.topic), default=None)
    return replace_reading(parsed, reading, shifted)


def coverage(text: str, known: Index | None = None) -> Coverage:
    """How much of a text the lab language can account for."""
    lab = known or index()
    return coverage_of(parse(text, near=True, known=lab), lab)


def coverage_of(parsed: list[ParsedSentence], lab: Index) -> Coverage:
    """The same for a text that has been parsed with ``near``."""
    total = whole = phrases = fragments = 0
    for sentence in parsed:
        tokens = tokenise(sentence.text)
        words = [token[0].isalnum() for token in tokens]
        total += sum(words)
        if sentence.reading is not None and sentence.reading.exact:
            whole += sum(words)
            phrases += sum(words)
            fragments += sum(words)
            continue
        covered = phrase_cover(tokens, lab)
        phrases += sum(word and here for word, here in zip(words, covered, strict=True))
        for start, end in sentence.alignment.runs if sentence.alignment else ():
            if sum(words[start:end]) >= FRAGMENT:
                covered[start:end] = [True] * (end - start)
        fragments += sum(word and here for word, here in zip(words, covered, strict=True))
    if not total:
        return Coverage(0.0, 0.0, 0.0)
    return Coverage(whole / total, phrases / total, fragments / total)


def phrase_cover(tokens: list[str], lab: Index) -> list[bool]:
    """Which tokens lie inside a class member, a content phrase or an opener, by longest match."""
    covered = [False] * len(tokens)
    place = next((start for start, _, _ in openers_of(tokens, lab)), 0)
    covered[:place] = [True] * place
    while place < len(tokens):
        end = max(longest_phrase(tokens, place, phrases)[0] for phrases in (lab.phrases, lab.wordings))
        covered[place:end] = [True] * (end - place)
        place = max(end, place + 1)
    return covered


def longest_phrase(tokens: list[str], start: int, phrases: Trie) -> tuple[int, list[Any]]:
    """Where the longest known phrase from ``start`` ends, and what the trie keeps of it."""
    node, end, kept = phrases, start, []
    for place in range(start, len(tokens)):
        if tokens[place] not in node:
            break
        node = node[tokens[place]]
        if END in node:
            end, kept = place + 1, node[END]
    return end, kept
