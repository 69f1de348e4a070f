"""Members that do not go with the words beside a gap.

Authors promise that a member fits every frame of its class; three small clashes slip through so easily that the program
takes the member out of that one gap: a doubled word, "pick up it", and "make a note of on".
"""

from __future__ import annotations

from dataclasses import replace

from wmbench.lab.language import EquivalenceClass, Slot

PARTICLES = {"up", "out", "off", "down", "away", "back", "aside", "apart", "together"}
PRONOUNS = {"it", "them", "itself", "themselves"}
PREPOSITIONS = {"of", "on", "in", "at", "for", "with", "from", "by", "before", "after", "during", "into", "than"}
DANGLING = {"of", "for", "with", "to", "from", "into"}  # at the end of a verb: "work with", "go for"
ARTICLES = {"a", "an", "the", "your"}


def settle(parts: list[str | Slot]) -> tuple[str | Slot, ...]:
    """The parts with every class reduced to the members that go with the literals beside it."""
    settled = list(parts)
    for place, part in enumerate(parts):
        if not isinstance(part, Slot) or part.group is None:
            continue
        before = parts[place - 1] if place else ""
        after = parts[place + 1] if place + 1 < len(parts) else ""
        left = last_word(before) if isinstance(before, str) and not part.prefix else ""
        right = first_word(after) if isinstance(after, str) and not part.suffix else ""
        kept = tuple(member for member in part.group.members if fits(member, left, right))
        # Of a held-out class documents may use the first member only, so that one has to stay.
        if kept and kept != part.group.members and not (part.group.held_out and kept[0] != part.group.members[0]):
            group = EquivalenceClass(part.group.id, kept, part.group.held_out)
            settled[place] = replace(part, group=group)
    return tuple(settled)


def last_word(text: str) -> str:
    """The word just before a gap; nothing when a mark comes between."""
    words = text.split()
    return words[-1].lower() if words and words[-1][-1] not in ",." else ""


def first_word(text: str) -> str:
    """The word just after a gap; nothing when a mark comes between."""
    words = text.split()
    return words[0].rstrip(",.").lower() if words and words[0][0] not in ",." else ""


def fits(member: str, left: str, right: str) -> bool:
    """Whether a member may stand between these two words."""
    words = member.lower().split()
    first, last = words[0], words[-1]
    if left and (left == first or (left in ARTICLES and first in ARTICLES)):
        return False
    if not right:
        return True
    if last == right or (last in ARTICLES and right in ARTICLES):
        return False
    if right in PRONOUNS and last in PARTICLES:
        return False
    return not (last in DANGLING and right in PREPOSITIONS)
