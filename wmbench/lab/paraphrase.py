"""Say a text again in other words. The lab's own attack: it knows exactly what a sentence means.

A recognised sentence is said again from its meaning, with another frame and other words; in other sentences known
phrases are replaced. What is not recognised stays. Lengths are steered for the whole text, not sentence by sentence.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from wmbench.lab.index import Index, index
from wmbench.lab.language import Meaning, Topic, seeded
from wmbench.lab.parse import Coverage, ParsedSentence, coverage_of, meaning_of, parse
from wmbench.lab.realise import sentence as finish
from wmbench.lab.realise import suits
from wmbench.lab.wording import HeldOut, Option, Size, options, replace_phrases

Mode = Literal["rewrite", "compress", "expand", "document"]
MODES: tuple[Mode, ...] = ("rewrite", "compress", "expand", "document")
# Words of the result as a share of the words before: where to aim, inside the promised bands.
AIMS: dict[Mode, tuple[float, float]] = {
    "rewrite": (0.98, 1.02),
    "document": (0.98, 1.02),
    "compress": (0.63, 0.67),
    "expand": (1.36, 1.44),
}
SIZES: dict[Mode, tuple[Size, ...]] = {
    "rewrite": ("any",),
    "document": ("any",),
    "compress": ("any", "short"),
    "expand": ("any", "long"),
}
SWAPS = 0.15  # share of the inner sentences that `document` moves by one place
SEARCH = 500
ROLES = {"claim": "emphasis", "caveat": "contrast", "step": "next"}


@dataclass(frozen=True, slots=True)
class Paraphrase:
    """The new text, how much of the old one was recognised, and what both say."""

    text: str
    coverage: Coverage
    meaning_before: Meaning
    meaning_after: Meaning


@dataclass(slots=True)
class Unit:
    """A sentence on its way to other words."""

    old: ParsedSentence
    choices: list[Option]
    choice: Option
    opener: str = ""
    closer: str = ""

    @property
    def words(self) -> int:
        """Words as it now stands."""
        return self.choice.words + len(self.opener.split()) + sum(word != "," for word in self.closer.split())


def paraphrase(
    text: str,
    mode: Mode,
    seed: int,
    *,
    held_out: HeldOut = "with",
    aim: tuple[float, float] | None = None,
    known: Index | None = None,
) -> Paraphrase:
    """Say ``text`` again. ``held_out`` tells whether the reserved frames and classes may, may not or must be used;
    ``aim`` is the wanted share of the words before, if it is not the mode's own."""
    if mode not in MODES:
        raise ValueError(f"unknown paraphrase mode {mode!r}; one of {', '.join(MODES)}")
    lab = known or index()
    rng = seeded("paraphrase", mode, held_out, seed, text)
    parsed = parse(text, near=True, known=lab)
    before = meaning_of(parsed)
    topic = lab.lab.topics.get(before.topic)
    units = [make_unit(sentence, mode, rng, held_out, topic, lab) for sentence in parsed]
    target = round(len(text.split()) * rng.uniform(*(aim or AIMS[mode])))
    for unit in units:
        unit.opener = new_opener(unit, mode, rng, held_out, lab)
    steer(units, target, rng)
    if mode == "expand":
        pad(units, target, rng, lab)
    if mode == "document":
        move(units, rng)
    result = " ".join(finish(unit.choice.raw, unit.opener, unit.closer) for unit in units)
    after = meaning_of(parse(result, near=True, known=lab))
    return Paraphrase(result, coverage_of(parsed, lab), before, after)


def make_unit(
    sentence: ParsedSentence, mode: Mode, rng: random.Random, held_out: HeldOut, topic: Topic | None, lab: Index
) -> Unit:
    """A sentence with all its choices and the one the mode likes best."""
    if sentence.reading is None:
        size: Size = {"compress": "short", "expand": "long"}.get(mode, "any")  # type: ignore[assignment]
        only = replace_phrases(sentence, rng, held_out, size, topic, lab)
        return Unit(sentence, [only], only)
    choices = options(sentence, rng, held_out, SIZES[mode])
    old = sentence.reading.frame
    wanted = {"compress": "short", "expand": "long"}.get(mode, old.length)
    # Another frame matters more than the length: lengths are put right over the whole text.
    fitting = [one for one in choices if one.frame is not old and one.frame and one.frame.length == wanted]
    other = [one for one in choices if one.frame is not old] if mode in ("rewrite", "document") else []
    free = choices if held_out == "only" else other or choices
    return Unit(sentence, free, rng.choice(fitting or other or choices))


def new_opener(unit: Unit, mode: Mode, rng: random.Random, held_out: HeldOut, lab: Index) -> str:
    """Another opener of the same role; none when the text is to become shorter. No opener is held out."""
    old = unit.old
    if not old.opener or mode == "compress":
        return ""
    if held_out == "only":
        return old.opener
    others = [one for one in lab.lab.openers[old.role] if one != old.opener and suits(one, unit.choice.raw)]
    return rng.choice(others) if others else old.opener


def steer(units: list[Unit], target: int, rng: random.Random) -> None:
    """Exchange choices at random as long as that brings the number of words nearer to the target."""
    gap = target - sum(unit.words for unit in units)
    free = [unit for unit in units if len(unit.choices) > 1]
    for _ in range(SEARCH if free else 0):
        if abs(gap) <= 0.01 * target:
            break
        unit = rng.choice(free)
        choice = rng.choice(unit.choices)
        change = choice.words - unit.choice.words
        if abs(gap - change) < abs(gap):
            unit.choice = choice
            gap -= change


def pad(units: list[Unit], target: int, rng: random.Random, lab: Index) -> None:
    """Add openers and closers that say nothing new, until the text is long enough."""
    total = sum(unit.words for unit in units)
    used = {unit.opener for unit in units}
    order = units[1:]
    rng.shuffle(order)
    for unit in order:
        if total >= target:
            return
        if not unit.opener:
            kind = unit.old.reading.proposition.kind if unit.old.reading else ""
            role = ROLES.get(kind, "hedge")
            phrases = [
                one
                for one in (*lab.lab.openers[role], *lab.lab.openers["hedge"])
                if one not in used and suits(one, unit.choice.raw)
            ]
            unit.opener = rng.choice(phrases) if phrases else ""
            used.add(unit.opener)
            total += len(unit.opener.split())
    for unit in order:
        if total >= target:
            return
        if not unit.closer and unit.choice.raw.endswith("."):
            unit.closer = rng.choice(lab.lab.closers)
            total += len(unit.closer.split()) - 1


def move(units: list[Unit], rng: random.Random) -> None:
    """Let a few inner sentences change places with their neighbours."""
    inner = list(range(1, len(units) - 2))
    rng.shuffle(inner)
    moved: set[int] = set()
    for place in inner[: max(1, round(SWAPS * len(units)))]:
        if not {place, place + 1} & moved:
            units[place], units[place + 1] = units[place + 1], units[place]
            units[place].opener = units[place + 1].opener = ""  # "next" or "however" pointed at the old neighbour
            moved |= {place, place + 1}
