"""Draw documents: a prompt and a seed give a text and its meaning."""

from __future__ import annotations

import random
from dataclasses import dataclass

from wmbench.lab.language import (
    LENGTHS,
    Document,
    Frame,
    Language,
    Meaning,
    Proposition,
    Statement,
    Topic,
    language,
    seeded,
)
from wmbench.lab.plan import arrange, opener_role
from wmbench.lab.realise import Chooser, draw_place, fill, sentence, suits

# Tokens of the lab tokenizer per word, punctuation included: a target in words becomes a length in tokens.
TOKENS_PER_WORD = 1.15
OPENER_WORDS = 0.7  # a third of the sentences has one, of about two words
OWN_SHARE = (0.60, 0.70)
OPENER_ODDS = {
    "opening": 0.12,
    "example": 0.55,
    "contrast": 0.45,
    "conclusion": 0.5,
    "comparison": 0.15,
    "first": 0.6,
    "next": 0.4,
    "finally": 0.5,
}
OTHER_ODDS = 0.24


@dataclass(frozen=True, slots=True)
class Style:
    """How somebody writes. What is said is drawn evenly in every style.

    A habit of 1 draws evenly; under a larger one the first of a list comes most often.
    """

    lengths: tuple[float, float, float] = (0.22, 0.44, 0.34)
    """Odds of short, plain and long frames."""
    words_per_sentence: float = 15.0
    """What these odds come to; decides how many things a document says."""
    frames: float = 1.0
    """Habit in the choice of sentence frames and openers."""
    words: float = 1.0
    """Habit in the choice of class members and wordings."""


EVEN = Style()
"""The whole language, every frame and word alike: null texts, the encoder's pairs."""


def draw_target_words(rng: random.Random, min_tokens: int = 150, max_tokens: int = 300) -> int:
    """A length in words such that lengths in tokens are about uniform between the two bounds."""
    return round(rng.uniform(min_tokens, max_tokens) / TOKENS_PER_WORD)


def sample(
    prompt_or_topic: str,
    seed: int,
    *,
    target_words: int | None = None,
    min_tokens: int = 150,
    max_tokens: int = 300,
    style: Style = EVEN,
    lab: Language | None = None,
) -> Document:
    """The document that answers this prompt under this seed; the same in every process."""
    topic = (lab or language()).topic(prompt_or_topic)
    rng = seeded("document", prompt_or_topic.strip(), seed)
    target = target_words or draw_target_words(rng, min_tokens, max_tokens)
    order = arrange(choose(topic, rng, target / style.words_per_sentence), rng)
    frames = frames_for(order, rng, target, style)
    openers = (lab or language()).openers
    chooser = Chooser(rng, style.words)
    used: set[str] = set()
    said: set[tuple[str, int]] = set()
    texts, statements = [], []
    silent = 0
    for place, (proposition, frame) in enumerate(zip(order, frames, strict=True)):
        values = {name: pick_value(proposition, name, said, rng) for name in proposition.values}
        raw = fill(frame, proposition, values, chooser)
        role = opener_role(order, place)
        opener = ""
        # A run of bare sentences reads like a list; a run of opened ones like a speech.
        if role and rng.random() < OPENER_ODDS.get(role, OTHER_ODDS) + 0.08 * (silent - 1):
            opener = pick_opener(openers.get(role, ()), raw, used, rng, style.frames)
        silent = 0 if opener else silent + 1
        texts.append(sentence(raw, opener))
        statements.append(Statement(proposition.id, tuple(sorted(values.items()))))
    return Document(" ".join(texts), Meaning(topic.id, tuple(statements)))


def choose(topic: Topic, rng: random.Random, sentences: float) -> list[Proposition]:
    """About so many things to say: an opening claim, a conclusion, and between them own and shared propositions."""
    count = max(4, round(sentences + rng.uniform(-0.7, 0.7)))
    own = shuffled([item for item in topic.propositions if not item.shared], rng)
    shared = shuffled([item for item in topic.propositions if item.shared], rng)
    want_own = round(count * rng.uniform(*OWN_SHARE)) if shared else count
    opening = take(own if rng.random() < 0.75 else shared, "claim") or take(shared, "claim") or take(own, "claim")
    closing = take(own if rng.random() < 0.45 else shared, "conclusion") or take(shared, "conclusion")
    closing = closing or take(own, "conclusion")
    ends = [item for item in (opening, closing) if item]
    want_own -= sum(not item.shared for item in ends)
    own_body = [item for item in own if item.kind != "conclusion"][: max(0, want_own)]
    want_shared = max(0, count - len(ends) - len(own_body))
    shared_body = [item for item in shared if item.kind != "conclusion"][:want_shared]
    body = own_body + shared_body
    return [*([opening] if opening else []), *body, *([closing] if closing else [])]


def shuffled(items: list[Proposition], rng: random.Random) -> list[Proposition]:
    """The items in a random order."""
    rng.shuffle(items)
    return items


def take(items: list[Proposition], kind: str) -> Proposition | None:
    """Remove and return the first item of this kind."""
    for place, item in enumerate(items):
        if item.kind == kind:
            return items.pop(place)
    return None


def frames_for(order: list[Proposition], rng: random.Random, target: int, style: Style) -> list[Frame]:
    """A frame for every proposition: lengths at random, then nudged until the whole comes near the target."""
    picks = [pick_frame(item, rng, style) for item in order]
    total = sum(item.sizes[pick] + OPENER_WORDS for item, pick in zip(order, picks, strict=True))
    for _ in range(60):
        gap = target - total
        if abs(gap) <= 3:
            break
        place = int(rng.random() * len(order))
        other = pick_frame(order[place], rng, style)
        change = order[place].sizes[other] - order[place].sizes[picks[place]]
        if abs(gap - change) < abs(gap):
            picks[place] = other
            total += change
    return [item.frames[pick] for item, pick in zip(order, picks, strict=True)]


def pick_frame(proposition: Proposition, rng: random.Random, style: Style) -> int:
    """The number of a frame that may be used outside attacks."""
    length = rng.choices(LENGTHS, style.lengths)[0]
    open_frames = proposition.open_frames[length]
    return open_frames[draw_place(len(open_frames), rng, style.frames)]


def pick_value(proposition: Proposition, name: str, said: set[tuple[str, int]], rng: random.Random) -> int:
    """A content value; of a topic's arguments one that this document has not mentioned yet, while there are any."""
    count = len(proposition.values[name])
    place = int(rng.random() * count)
    if proposition.shared:
        fresh = [number for number in range(count) if (name, number) not in said]
        if fresh and count > 1:
            place = fresh[place % len(fresh)]
        said.add((name, place))
    return place


def pick_opener(phrases: tuple[str, ...], raw: str, used: set[str], rng: random.Random, habit: float) -> str:
    """An opener not yet used in this document that does not begin like the sentence itself."""
    if not phrases:
        return ""
    opener = phrases[draw_place(len(phrases), rng, habit)]
    if opener in used or not suits(opener, raw):
        return ""
    used.add(opener)
    return opener
