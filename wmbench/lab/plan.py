"""The order in which a document says things, and which kind of opener suits each place."""

from __future__ import annotations

import random

from wmbench.lab.language import Proposition

# Orders of the three strands of a body: grounds (claims, reasons), steps, limits (caveats, comparisons).
# "woven" merges them.
LAYOUTS = (
    ("grounds", "steps", "limits"),
    ("grounds", "steps", "limits"),
    ("steps", "grounds", "limits"),
    ("grounds", "limits", "steps"),
    ("woven",),
    ("woven",),
)
STRANDS = {
    "claim": "grounds",
    "reason": "grounds",
    "step": "steps",
    "caveat": "limits",
    "comparison": "limits",
}


def arrange(chosen: list[Proposition], rng: random.Random) -> list[Proposition]:
    """Order the chosen propositions: opening claim, body in one of the layouts, conclusion."""
    first, body = chosen[0], chosen[1:]
    last = [body.pop()] if body and body[-1].kind == "conclusion" else []
    strands: dict[str, list[Proposition]] = {"grounds": [], "steps": [], "limits": []}
    examples = []
    for item in body:
        if item.kind == "example":
            examples.append(item)
        else:
            strands[STRANDS[item.kind]].append(item)
    strands["steps"] = in_order(strands["steps"], rng)
    layout = rng.choice(LAYOUTS)
    if layout == ("woven",):
        order = weave([strand for strand in strands.values() if strand], rng)
    else:
        order = [item for name in layout for item in strands[name]]
    for example in examples:
        # An example needs something before it to be an example of; it does not part two steps.
        places = [
            place
            for place in range(len(order) + 1)
            if not (0 < place < len(order) and order[place - 1].kind == order[place].kind == "step")
        ]
        order.insert(rng.choice(places), example)
    return [first, *order, *last]


def in_order(steps: list[Proposition], rng: random.Random) -> list[Proposition]:
    """Steps of the topic in the order of its file, shared ones at a random place or where they say they belong."""
    own = sorted((item for item in steps if not item.shared), key=lambda item: item.place)
    front = [item for item in steps if item.shared and item.at == "first"]
    rear = [item for item in steps if item.shared and item.at == "last"]
    for item in steps:
        if item.shared and item.at == "any":
            own.insert(rng.randint(0, len(own)), item)
    return [*front, *own, *rear]


def weave(strands: list[list[Proposition]], rng: random.Random) -> list[Proposition]:
    """Merge the strands at random, each keeping its own order."""
    slots = [number for number, strand in enumerate(strands) for _ in strand]
    rng.shuffle(slots)
    readers = [iter(strand) for strand in strands]
    return [next(readers[number]) for number in slots]


def opener_role(order: list[Proposition], place: int) -> str:
    """Which role an opener at this place would play; empty when none fits."""
    item = order[place]
    before = order[place - 1].kind if place else ""
    if place == 0:
        return "opening"
    if item.at != "any":
        return ""  # such a sentence says itself that it comes first or last
    if item.kind == "step":
        return step_role(order, place)
    if item.kind == "caveat":
        return "addition" if before == "caveat" else "contrast"
    if item.kind in ("claim", "reason"):
        return {"claim": "addition", "reason": "reason"}[item.kind] if before in ("claim", "reason") else "emphasis"
    return item.kind  # example, comparison, conclusion


def step_role(order: list[Proposition], place: int) -> str:
    """First, next or finally: only where the steps around make that true."""
    steps = [number for number, item in enumerate(order) if item.kind == "step"]
    if len(steps) < 2:
        return ""
    if place == steps[0]:
        return "first"
    if place == steps[-1] and len(steps) > 2:
        return "finally"
    return "next"
