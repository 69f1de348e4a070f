"""Is the lab language large enough, sound, and varied enough? ``wmbench lab check`` prints the answer."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from wmbench.lab.index import tokenise
from wmbench.lab.language import BANDS, DOMAINS, Document, Language, Proposition, Slot, Topic, language
from wmbench.lab.loading import package_data
from wmbench.lab.realise import mend
from wmbench.lab.sample import sample

MIN_TOPICS = 20
MIN_PROPOSITIONS = 24
MIN_CLASSES = 400
MIN_MEMBERS = 4
WORD_TYPES = (2500, 5000)
MAX_OVERLAP = 0.10
MAX_COMMON = 0.40
FORBIDDEN = set('0123456789()[]{}<>"“”:;–—/&%$')
OPENINGS = (
    "however,",
    "first,",
    "also,",
    "also ",
    "for example",
    "for instance",
    "next,",
    "finally,",
    "this ",
    "they ",
    "therefore",
)


@dataclass(frozen=True)
class Report:
    """Sizes and measures of the language, complaints about the data, and which requirements are missed."""

    topics: dict[str, int]
    propositions: dict[str, int]  # reachable, by topic
    frames: int
    held_out_frames: float
    classes: int
    large_classes: int
    held_out_classes: float
    word_types: int  # that documents can contain
    all_word_types: int  # attacks included
    prompts: int
    overlap: float
    common: float
    common_ids: float
    complaints: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether every requirement is met and no file has a mistake."""
        return not self.missed and not self.complaints

    def lines(self) -> Iterator[str]:
        """The report for a reader."""
        topics = ", ".join(f"{domain} {count}" for domain, count in self.topics.items())
        yield f"topics: {topics}; prompts {self.prompts}"
        counts = sorted(self.propositions.values())
        if counts:
            yield f"propositions per topic: {counts[0]} to {counts[-1]}, {sum(counts)} in all; frames {self.frames}"
        yield f"classes: {self.classes}, with {MIN_MEMBERS} or more members {self.large_classes}"
        yield f"held out: {self.held_out_frames:.1%} of the frames, {self.held_out_classes:.1%} of the classes"
        yield f"word types: {self.word_types} in documents, {self.all_word_types} with the attacks"
        yield f"5-gram overlap of two documents of a topic (median): {self.overlap:.1%}"
        yield f"statements common to two seeds of a prompt: {self.common:.1%} (propositions {self.common_ids:.1%})"
        for title, items in (("wrong", self.complaints), ("look at", self.warnings), ("missed", self.missed)):
            for item in items:
                yield f"{title}: {item}"
        if not self.ok:
            yield "next step: mend the data; README.md there shows its form, and what the names above mean"
            yield f"  where: {package_data()}"


def check(lab: Language | None = None, *, documents: int = 40) -> Report:
    """Inspect the data and ``documents`` documents of every topic."""
    lab = lab or language()
    frames = {frame.id: frame for topic in lab.topics.values() for item in topic.propositions for frame in item.frames}
    drawn = {topic.id: [sample(topic.id, seed, lab=lab) for seed in range(documents)] for topic in lab.topics.values()}
    overlaps = [overlap(a, b) for texts in drawn.values() for a, b in zip(texts[::2], texts[1::2], strict=False)]
    commons, ids = common_shares(lab, documents)
    report = Report(
        topics={domain: len(lab.of_domain(domain)) for domain in DOMAINS},
        propositions={topic.id: len(topic.propositions) for topic in lab.topics.values()},
        frames=len(frames),
        held_out_frames=share([frame.held_out for frame in frames.values()]),
        classes=len(lab.classes),
        large_classes=sum(len(group.members) >= MIN_MEMBERS for group in lab.classes.values()),
        held_out_classes=share([group.held_out for group in lab.classes.values()]),
        word_types=len(word_types(lab)),
        all_word_types=len(word_types(lab, attacks=True)),
        prompts=len(lab.prompts),
        overlap=statistics.median(overlaps) if overlaps else 0.0,
        common=commons,
        common_ids=ids,
        complaints=list(dict.fromkeys([*lab.problems, *data_mistakes(lab)])),
        warnings=[*length_warnings(lab), *unreached(lab, drawn), *unused_classes(lab)],
    )
    report.missed.extend(missed(report))
    return report


def share(flags: list[bool]) -> float:
    """How many of the flags are set."""
    return sum(flags) / len(flags) if flags else 0.0


def missed(report: Report) -> Iterator[str]:
    """Requirements that the figures do not meet."""
    for domain, count in report.topics.items():
        if count < MIN_TOPICS:
            yield f"{domain} has {count} topics, wanted {MIN_TOPICS}"
    for topic, count in report.propositions.items():
        if count < MIN_PROPOSITIONS:
            yield f"{topic} is too thin: {count} propositions, wanted {MIN_PROPOSITIONS}"
    if report.large_classes < MIN_CLASSES:
        yield f"{report.large_classes} classes of {MIN_MEMBERS} members, wanted {MIN_CLASSES}"
    if not WORD_TYPES[0] <= report.word_types <= WORD_TYPES[1]:
        yield f"{report.word_types} word types, wanted {WORD_TYPES[0]} to {WORD_TYPES[1]}"
    if report.overlap >= MAX_OVERLAP:
        yield f"5-gram overlap {report.overlap:.1%}, wanted below {MAX_OVERLAP:.0%}"
    if report.common >= MAX_COMMON:
        yield f"common statements {report.common:.1%}, wanted below {MAX_COMMON:.0%}"


def word_types(lab: Language, *, attacks: bool = False) -> Counter[str]:
    """Every word that a document (or an attack) can contain, with the number of places it comes from."""
    groups = lab.classes.values()
    texts = [member for group in groups for member in (group.members if attacks else group.open_members)]
    texts += [one for role, phrases in lab.openers.items() for one in phrases if attacks or role != "hedge"]
    texts += lab.closers if attacks else ()
    for topic in lab.topics.values():
        for item in topic.propositions:
            texts += [text for meanings in item.values.values() for wordings in meanings for text in wordings]
            frames = [frame for frame in item.frames if attacks or not frame.held_out]
            texts += [part for frame in frames for part in frame.parts if isinstance(part, str)]
    return Counter(token for text in texts for token in tokenise(text) if token[0].isalpha())


def overlap(first: Document, second: Document, size: int = 5) -> float:
    """The share of the 5-grams of one document that the other has too."""
    grams = []
    for document in (first, second):
        words = tokenise(document.text)
        grams.append({tuple(words[place : place + size]) for place in range(len(words) - size + 1)})
    return len(grams[0] & grams[1]) / max(1, min(len(grams[0]), len(grams[1])))


def common_shares(lab: Language, documents: int) -> tuple[float, float]:
    """How much two seeds of one prompt say in common: statements (with their values) and bare propositions."""
    statements, ids = [], []
    for topic in lab.topics.values():
        prompt = topic.prompts[0]
        meanings = [sample(prompt, seed, lab=lab).meaning for seed in range(documents // 2)]
        for first, second in zip(meanings[::2], meanings[1::2], strict=False):
            size = (len(first.statements) + len(second.statements)) / 2
            statements.append(len(set(first.statements) & set(second.statements)) / size)
            ids.append(
                len({s.proposition for s in first.statements} & {s.proposition for s in second.statements}) / size
            )
    return (statistics.mean(statements), statistics.mean(ids)) if statements else (0.0, 0.0)


def data_mistakes(lab: Language) -> Iterator[str]:
    """What is plainly wrong in the data files."""
    for group in lab.classes.values():
        if len(group.members) < 2:
            yield f"class {group.id} has one member"
        for member in group.members:
            if FORBIDDEN & set(member):
                yield f"class {group.id}: forbidden mark in {member!r}"
    for topic in lab.topics.values():
        first_of: dict[str, str] = {}
        for item in topic.propositions:
            yield from proposition_mistakes(topic, item)
            for frame in item.frames:
                other = first_of.setdefault(frame.text.lower(), frame.id)
                if other != frame.id:
                    yield f"{frame.id}: the same sentence as {other}: {frame.text}"


def proposition_mistakes(topic: Topic, item: Proposition) -> Iterator[str]:
    """Forbidden marks, missing content slots, doubled words, openings that belong to the program."""
    for name, meanings in item.values.items():
        for text in (text for wordings in meanings for text in wordings):
            if FORBIDDEN & set(text) or mend(text)[1] or text.endswith("."):
                yield f"{item.id} <{name}>: forbidden mark or doubled word in {text!r}"
    for frame in item.frames:
        used = {part.name for part in frame.parts if isinstance(part, Slot) and part.group is None}
        lost = {name for name, meanings in item.values.items() if len(meanings) > 1} - used
        if lost:
            yield f"{frame.id}: does not say <{'>, <'.join(sorted(lost))}> ({topic.id})"
        literal = "".join(part if isinstance(part, str) else "" for part in frame.parts)
        if FORBIDDEN & set(literal) or not literal.endswith(".") or literal.count(".") != 1 or "  " in frame.text:
            yield f"{frame.id}: forbidden mark, or not one sentence: {frame.text}"
        if mend(frame.text)[1]:
            yield f"{frame.id}: doubled word: {frame.text}"
        if frame.text.lower().startswith(OPENINGS):
            yield f"{frame.id}: opens like a connective: {frame.text}"


def length_warnings(lab: Language) -> Iterator[str]:
    """Frames whose mean number of words lies outside their band. Shared ones vary with their arguments."""
    for topic in lab.topics.values():
        for item in topic.propositions:
            for frame, size in zip(item.frames, item.sizes, strict=True):
                low, high = BANDS[frame.length]
                if not item.shared and not low <= size <= high:
                    yield f"{frame.id}: {size:.1f} words, {frame.length} means {low} to {high}"


def unreached(lab: Language, drawn: dict[str, list[Document]]) -> Iterator[str]:
    """Propositions that no document said."""
    for topic, documents in drawn.items():
        said = {statement.proposition for document in documents for statement in document.meaning.statements}
        for item in lab.topics[topic].propositions:
            if item.id not in said and len(documents) >= 40:
                yield f"{item.id}: in none of {len(documents)} documents"


def unused_classes(lab: Language) -> Iterator[str]:
    """Classes that no frame asks for, and classes smaller than they should be."""
    used = {
        part.group.id
        for topic in lab.topics.values()
        for item in topic.propositions
        for frame in item.frames
        for part in frame.parts
        if isinstance(part, Slot) and part.group is not None
    }
    for group in lab.classes.values():
        if group.id not in used:
            yield f"class {group.id} is not used"
        if len(group.members) < MIN_MEMBERS:
            yield f"class {group.id} has {len(group.members)} members, wanted {MIN_MEMBERS}"
