"""Compile the data files of the lab language. Mistakes are collected, not raised: see ``check``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from difflib import get_close_matches
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

from wmbench.lab.files import ArgumentsForm, ConnectivesForm, PropositionForm, TopicForm, read_files, well_formed
from wmbench.lab.language import (
    DOMAINS,
    LENGTHS,
    EquivalenceClass,
    Frame,
    Language,
    Proposition,
    Slot,
    Topic,
    drawn_for_attacks,
    stable_hash,
)
from wmbench.lab.neighbors import settle

SLOT = re.compile(r"([\w'-]*)(\{\w+\}|<\w+>)([\w'-]*)")
# The plural lists of a topic's `args`, and the slot each fills. The others are one meaning with several wordings.
CHOICES = {
    "benefits": "benefit",
    "mistakes": "mistake",
    "tools": "tool",
    "people": "person",
    "signs": "sign",
    "starts": "start",
}
WORDINGS = ("thing", "doing", "do")
SHARED_SLOTS = frozenset((*WORDINGS, *CHOICES.values()))
COMMON = "common"
# Words that keep their capital when an opener stands before them.
PROPER = {
    "I",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "June",
    "Earth",
    "Mars",
    "American",
    "Arctic",
    "English",
    "German",
    "Edward",
    "Pompeii",
}

Classes = dict[str, EquivalenceClass]
Values = Mapping[str, tuple[tuple[str, ...], ...]]


def package_data() -> Traversable:
    """Where the data lies, in a checkout as in an installed wheel."""
    return resources.files("wmbench.lab") / "data"


def load(root: Traversable) -> Language:
    """Read all data files under ``root``."""
    problems: list[str] = []
    classes = {
        name: compile_classes(name, data, path, problems) for name, path, data in read_files(root, "classes", problems)
    }
    shared = {
        name: compile_propositions(name, data, path, classes.get(COMMON, {}), SHARED_SLOTS, problems)
        for name, path, data in read_files(root, "templates", problems)
    }
    topics = compile_topics(root, classes, shared, problems)
    links = connectives(root, problems)
    return Language(
        topics=topics,
        classes={group.id: group for members in classes.values() for group in members.values()},
        openers=links.openers if links else {},
        closers=links.closers if links else (),
        prompts=topic_by_prompt(topics, problems),
        problems=tuple(problems),
    )


def compile_topics(
    root: Traversable,
    classes: Mapping[str, Classes],
    shared: Mapping[str, tuple[Proposition, ...]],
    problems: list[str],
) -> dict[str, Topic]:
    """All topics, domain by domain."""
    found: dict[str, Topic] = {}
    for domain in DOMAINS:
        for name, path, data in read_files(root, f"topics/{domain}", problems):
            form = well_formed(TopicForm, data, path, problems)
            if form is None:
                continue
            if (form.domain, form.topic) != (domain, name):
                problems.append(f"{path}: holds {form.topic} of {form.domain}; file and folder must be named so")
            elif form.classes not in classes:
                problems.append(f"{path}: there is no class file classes/{form.classes}.yaml")
            else:
                topic = compile_topic(form, path, classes, shared.get(domain, ()), problems)
                if topic.propositions:
                    found[name] = topic
                else:
                    problems.append(f"{path}: has no proposition")
    problems.extend(f"{path}: belongs to none of the domains {', '.join(DOMAINS)}" for path in strays(root, shared))
    return found


def connectives(root: Traversable, problems: list[str]) -> ConnectivesForm | None:
    """Openers and closers."""
    for name, path, data in read_files(root, "", problems):
        if name == "connectives":
            return well_formed(ConnectivesForm, data, path, problems)
    problems.append("connectives.yaml: does not exist, or cannot be read")
    return None


def strays(root: Traversable, shared: Iterable[str]) -> list[str]:
    """What is laid where only files of a domain are read."""
    folders = (entry.name for entry in (root / "topics").iterdir() if entry.is_dir())
    paths = {f"topics/{name}": name for name in folders} | {f"templates/{name}.yaml": name for name in shared}
    return sorted(path for path, name in paths.items() if name not in DOMAINS)


def topic_by_prompt(topics: Mapping[str, Topic], problems: list[str]) -> dict[str, str]:
    """Which topic a prompt asks about."""
    found: dict[str, str] = {}
    for topic in topics.values():
        for prompt in topic.prompts:
            if prompt in found:
                problems.append(f"{topic.id}: its prompt is also one of {found[prompt]}: {prompt}")
            found.setdefault(prompt, topic.id)
    return found


def compile_classes(file: str, data: Any, path: str, problems: list[str]) -> Classes:
    """One class file."""
    if not isinstance(data, dict):
        problems.append(f"{path}: holds no classes (`name: [member, member, ...]`)")
        return {}
    found: Classes = {}
    for name, members in data.items():
        identity = f"{file}/{name}"
        if not members or not isinstance(members, list) or not all(isinstance(m, str) and m.strip() for m in members):
            problems.append(f"class {identity}: members must be a list of words (quote yes, no, on, off and numbers)")
            continue
        unique = tuple(dict.fromkeys(member.strip() for member in members))
        if len(unique) < len(members):
            problems.append(f"class {identity}: a member stands there twice")
        found[str(name).lower()] = EquivalenceClass(identity, unique, drawn_for_attacks("class " + identity))
    return found


def compile_topic(
    form: TopicForm,
    path: str,
    classes: Mapping[str, Classes],
    shared: tuple[Proposition, ...],
    problems: list[str],
) -> Topic:
    """A topic: its own propositions, then the shared ones filled with its arguments."""
    name = form.topic
    known = {**classes.get(COMMON, {}), **classes[form.classes]}
    own = compile_propositions(name, form.propositions, path, known, frozenset(), problems)
    arguments = compile_arguments(form.args, path, problems)
    borrowed = []
    for template in shared:
        parts = (part for frame in template.frames for part in frame.parts)
        needed = {part.name for part in parts if isinstance(part, Slot) and part.group is None}
        values = {key: template.values.get(key) or arguments.get(key, ()) for key in sorted(needed)}
        if all(values.values()):
            identity = f"{name}/{template.name}"
            frames = template.frames
            borrowed.append(proposition(identity, template.kind, True, values, frames, template.place, template.at))
    return Topic(name, form.domain, form.name, form.prompts, form.classes, (*own, *borrowed))


def compile_arguments(args: ArgumentsForm, path: str, problems: list[str]) -> Values:
    """The arguments of a topic by slot name: meanings, each with its wordings."""
    found: dict[str, tuple[tuple[str, ...], ...]] = {}
    for key in WORDINGS:
        wordings = getattr(args, key)
        found[key] = (wordings,) if wordings else ()
    for key, slot in CHOICES.items():
        found[slot] = getattr(args, key)
    for key, slot in (*((key, key) for key in WORDINGS), *CHOICES.items()):
        if not found[slot]:
            problems.append(f"{path}: args/{key} is missing, so no template with <{slot}> can be used")
    return found


def compile_propositions(
    owner: str, data: Any, path: str, classes: Classes, more_slots: frozenset[str], problems: list[str]
) -> tuple[Proposition, ...]:
    """All propositions of a topic or a template file; ``more_slots`` are those that get their values later."""
    if not isinstance(data, list):
        problems.append(f"{path}: holds no list of propositions")
        return ()
    found: dict[str, Proposition] = {}
    for place, item in enumerate(data):
        called = item.get("id", place) if isinstance(item, dict) else place
        form = well_formed(PropositionForm, item, f"{path}: proposition {called}", problems)
        if form is None:
            continue
        identity = f"{owner}/{form.id}"
        if identity in found:
            problems.append(f"{path}: proposition {form.id}: there are two of this id")
            continue
        names = more_slots | set(form.vary)
        frames = tuple(
            frame
            for length in LENGTHS
            for frame in compile_frames(f"{identity}/{length}", length, getattr(form, length), classes, names, problems)
        )
        if {frame.length for frame in frames} != set(LENGTHS):
            problems.append(f"{identity}: left out, not all three lengths have a sound frame")
            continue
        found[identity] = proposition(identity, form.kind, bool(more_slots), form.vary, frames, place, form.at)
    return tuple(found.values())


def proposition(
    identity: str, kind: str, shared: bool, values: Values, frames: tuple[Frame, ...], place: int, at: str
) -> Proposition:
    """A proposition with what the sampler wants to know in advance."""
    open_frames = {
        length: tuple(n for n, frame in enumerate(frames) if frame.length == length and not frame.held_out)
        for length in LENGTHS
    }
    sizes = tuple(sum(part_size(part, values) for part in frame.parts) for frame in frames)
    return Proposition(identity, kind, shared, values, frames, sizes, open_frames, place, at)


def part_size(part: str | Slot, values: Values) -> float:
    """Mean words of a part of a frame."""
    if isinstance(part, str):
        return sum(any(mark.isalnum() for mark in word) for word in part.split())
    options = part.group.open_members if part.group else [one for many in values.get(part.name, ()) for one in many]
    return sum(len(option.split()) for option in options) / len(options) if options else 1.0


def compile_frames(
    owner: str, length: str, texts: Sequence[str], classes: Classes, values: Set[str], problems: list[str]
) -> Iterator[Frame]:
    """The frames of one length. At least one stays outside the held-out fifth."""
    sound: list[tuple[str, str, tuple[str | Slot, ...]]] = []
    for number, text in enumerate(texts):
        try:
            sound.append((f"{owner}/{number}", text, compile_parts(text.strip(), classes, values)))
        except LookupError as error:
            problems.append(f"{owner}/{number}: {error} in: {text}")
    held = [drawn_for_attacks("frame " + identity) for identity, _, _ in sound]
    if held and all(held):
        held[stable_hash(owner) % len(held)] = False
    for (identity, text, parts), reserved in zip(sound, held, strict=True):
        yield Frame(identity, length, text, parts, reserved)


def compile_parts(text: str, classes: Classes, values: Set[str]) -> tuple[str | Slot, ...]:
    """Split a frame into literals and slots. What is glued to a slot ("{friend}'s") becomes its affix."""
    parts: list[str | Slot] = []
    end = 0
    for match in SLOT.finditer(text):
        if match.start() > end:
            parts.append(text[end : match.start()])
        prefix, slot, suffix = match.groups()
        name = slot[1:-1]
        if slot[0] == "<":
            if name not in values:
                raise unknown_slot(slot, values)
            parts.append(Slot(name, None, prefix, suffix))
        else:
            if name.lower() not in classes:
                raise unknown_slot(slot, classes)
            parts.append(Slot(name.lower(), classes[name.lower()], prefix, suffix))
        end = match.end()
    if end < len(text):
        parts.append(text[end:])
    if isinstance(parts[0], str) and parts[0].split(" ", 1)[0].strip(",.'") not in PROPER:
        parts[0] = parts[0][:1].lower() + parts[0][1:]
    if any(mark in "".join(part for part in parts if isinstance(part, str)) for mark in "{}<>"):
        raise LookupError("broken bracket")
    return settle(parts)


def unknown_slot(slot: str, known: Iterable[str]) -> LookupError:
    """The complaint about a slot that nothing fills, with the name that may have been meant."""
    near = get_close_matches(slot[1:-1].lower(), known, n=1)
    return LookupError(f"unknown slot {slot}" + (f", perhaps {slot[0]}{near[0]}{slot[-1]}," if near else ""))
