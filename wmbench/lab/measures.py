"""What can be measured of the lab without a model: size and variety of the language, its attacks, the package."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from itertools import islice, pairwise

from wmbench.lab.check import MAX_COMMON, MAX_OVERLAP, MIN_CLASSES, MIN_PROPOSITIONS, MIN_TOPICS, WORD_TYPES, check
from wmbench.lab.codec import lab_codec, weights_folder
from wmbench.lab.datasets import null_texts
from wmbench.lab.language import language
from wmbench.lab.loading import package_data
from wmbench.lab.paraphrase import Mode, Paraphrase, paraphrase
from wmbench.lab.parse import coverage, parse
from wmbench.lab.sample import sample

MEGABYTE = 1_000_000
MAX_PACKAGE_MEGABYTES = 20
MAX_MEGABYTES = {"mini.safetensors": 12, "mini-encoder.safetensors": 6}
MAX_SURVIVING_BIGRAMS = 0.35
MIN_IN_BAND = 0.9
BANDS: dict[Mode, tuple[float, float]] = {"compress": (0.6, 0.7), "expand": (1.3, 1.5)}


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number and what it should be."""

    section: str
    name: str
    value: float | None
    """None: could not be measured; `note` says why."""
    unit: str = ""
    """Empty: a plain number. `%`: a share between 0 and 1."""
    target: str = ""
    met: bool | None = None
    """None: there is no target, or no value."""
    note: str = ""

    def shown(self) -> str:
        if self.value is None:
            return "not measured"
        if self.unit == "%":
            return f"{self.value:.1%}"
        number = f"{self.value:,.0f}" if self.value == round(self.value) else f"{self.value:.3g}"
        return f"{number} {self.unit}".strip()


def at_least(section: str, name: str, value: float, bound: float, unit: str = "", note: str = "") -> Figure:
    target = f"at least {Figure('', '', bound, unit).shown()}"
    return Figure(section, name, value, unit, target, value >= bound, note)


def below(section: str, name: str, value: float, bound: float, unit: str = "", note: str = "") -> Figure:
    target = f"below {Figure('', '', bound, unit).shown()}"
    return Figure(section, name, value, unit, target, value < bound, note)


def at_most(section: str, name: str, value: float, bound: float, unit: str = "", note: str = "") -> Figure:
    target = f"at most {Figure('', '', bound, unit).shown()}"
    return Figure(section, name, value, unit, target, value <= bound, note)


def between(section: str, name: str, value: float, low: float, high: float, unit: str = "", note: str = "") -> Figure:
    target = f"{Figure('', '', low, unit).shown()} to {Figure('', '', high, unit).shown()}"
    return Figure(section, name, value, unit, target, low <= value <= high, note)


def language_figures(documents: int) -> Iterator[Figure]:
    """Section 1 of the lab's design; `documents` of every topic are drawn."""
    report, here = check(documents=documents), "language"
    yield at_least(here, "topics in the smallest domain", min(report.topics.values()), MIN_TOPICS)
    yield at_least(here, "propositions of the thinnest topic", min(report.propositions.values()), MIN_PROPOSITIONS)
    yield Figure(here, "frames", report.frames)
    yield at_least(here, "classes with 4 or more members", report.large_classes, MIN_CLASSES)
    yield between(here, "word types in documents", report.word_types, *WORD_TYPES)
    yield between(here, "frames held out for attacks", report.held_out_frames, 0.15, 0.25, "%", "about a fifth")
    yield between(here, "classes held out for attacks", report.held_out_classes, 0.15, 0.25, "%", "about a fifth")
    yield at_least(here, "prompts in the smallest domain", _fewest_prompts(), 100)
    yield below(here, "5-gram overlap of two documents of a topic, median", report.overlap, MAX_OVERLAP, "%")
    yield below(here, "statements two seeds of a prompt share", report.common, MAX_COMMON, "%")
    yield below(here, "propositions two seeds of a prompt share", report.common_ids, MAX_COMMON, "%")
    yield at_most(here, "most uses of one frame in a document", _most_uses_of_a_frame(documents), 2)
    yield at_most(here, "mistakes in the data files", len(report.complaints), 0)


def _fewest_prompts() -> int:
    counts = Counter(topic.domain for topic in language().topics.values() for _ in topic.prompts)
    return min(counts.values())


def _most_uses_of_a_frame(documents: int) -> int:
    worst = 0
    for topic in language().topics:
        for seed in range(max(1, documents // 8)):
            readings = (one.reading for one in parse(sample(topic, seed).text))
            worst = max([worst, *Counter(reading.frame.id for reading in readings if reading).values()])
    return worst


def attack_figures(documents: int) -> Iterator[Figure]:
    """How much the attacks change, and how much of a text they understand, on fresh documents."""
    here = "attacks"
    texts = [text.text for text in islice(null_texts(""), documents)]
    known = [coverage(text) for text in texts]
    yield Figure(here, "words in recognised sentences", statistics.mean(c.sentences for c in known), "%")
    yield at_least(here, "words in known phrases", statistics.mean(c.fragments for c in known), 0.9, "%")
    for mode in ("rewrite", "document"):
        results = [paraphrase(text, mode, 0) for text in texts]
        left = statistics.mean(_surviving_bigrams(text, one.text) for text, one in zip(texts, results, strict=True))
        yield at_most(here, f"token bigrams that survive {mode}", left, MAX_SURVIVING_BIGRAMS, "%")
        yield Figure(here, f"texts whose statements survive {mode}", _same_meaning(results), "%")
    for mode, (low, high) in BANDS.items():
        results = [paraphrase(text, mode, 0) for text in texts]
        ratios = [len(one.text.split()) / len(text.split()) for text, one in zip(texts, results, strict=True)]
        share = statistics.mean(low <= ratio <= high for ratio in ratios)
        yield at_least(here, f"{mode}: texts with {low:.0%}-{high:.0%} of the words", share, MIN_IN_BAND, "%")
        yield Figure(here, f"texts whose statements survive {mode}", _same_meaning(results), "%")


def _surviving_bigrams(before: str, after: str) -> float:
    old, new = (list(pairwise(lab_codec().encode(text))) for text in (before, after))
    kept = set(new)
    return sum(pair in kept for pair in old) / max(1, len(old))


def _same_meaning(results: list[Paraphrase]) -> float:
    """The order may change (`document` moves sentences), what is said may not."""
    return statistics.mean(
        Counter(one.meaning_before.statements) == Counter(one.meaning_after.statements) for one in results
    )


def package_figures() -> Iterator[Figure]:
    """What the lab weighs on disk."""
    yield Figure("package", "language data", _size(package_data()) / MEGABYTE, "MB")
    for entry in sorted(weights_folder().iterdir(), key=lambda item: item.name):
        if entry.name.endswith((".safetensors", ".json")):
            size, bound = _size(entry) / MEGABYTE, MAX_MEGABYTES.get(entry.name)
            if bound is None:
                yield Figure("package", entry.name, size, "MB")
            else:
                yield at_most("package", entry.name, size, bound, "MB")
    yield Figure("package", "pieces of the tokenizer", lab_codec().size, note="about 3,000 to 4,000 were wanted")
    total = (_size(package_data()) + _size(weights_folder())) / MEGABYTE
    yield at_most("package", "package data in all", total, MAX_PACKAGE_MEGABYTES, "MB")


def _size(entry: Traversable) -> int:
    if entry.is_dir():
        return sum(_size(inner) for inner in entry.iterdir())
    return len(entry.read_bytes())
