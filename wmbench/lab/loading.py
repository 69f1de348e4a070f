"""Read the YAML data of the lab language and compile it. Mistakes are collected, not raised: see ``check``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import yaml

from wmbench.lab.language import (
    DOMAINS,
    KINDS,
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
CHOICES = {"benefits": "benefit", "mistakes": "mistake", "tools": "tool", "people": "person", "signs": "sign"}
CHOICES["starts"] = "start"
WORDINGS = ("thing", "doing", "do")
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
    "Earth",
    "American",
    "English",
}

Classes = dict[str, EquivalenceClass]
Values = Mapping[str, tuple[tuple[str, ...], ...]]


def package_data() -> Traversable:
    """Where the data lies, in a checkout as in an installed wheel."""
    return resources.files("wmbench.lab") / "data"


def load(root: Traversable) -> Language:
    """Read all data files under ``root``."""
    problems: list[str] = []
    classes = {name: compile_classes(name, data, problems) for name, data in files(root / "classes", problems)}
    shared = {
        name: compile_propositions(name, data, classes.get(COMMON, {}), None, problems)
        for name, data in files(root / "templates", problems)
    }
    topics: dict[str, Topic] = {}
    for domain in DOMAINS:
        for name, data in files(root / "topics" / domain, problems):
            try:
                topic = compile_topic(data, classes, shared.get(domain, ()), problems)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                problems.append(f"{domain}/{name}: not a topic: {error!r}")
                continue
            if topic.domain != domain or topic.id in topics:
                problems.append(f"{domain}/{name}: wrong domain or second topic of this name")
            topics[topic.id] = topic
    prompts: dict[str, str] = {}
    for topic in topics.values():
        for prompt in topic.prompts:
            if prompts.setdefault(prompt, topic.id) != topic.id:
                problems.append(f"{topic.id}: prompt also asked elsewhere: {prompt}")
    links = dict(files(root, problems)).get("connectives") or {}
    return Language(
        topics=topics,
        classes={group.id: group for members in classes.values() for group in members.values()},
        openers={role: tuple(phrases) for role, phrases in links.get("openers", {}).items()},
        closers=tuple(links.get("closers", ())),
        prompts=prompts,
        problems=tuple(problems),
    )


def files(folder: Traversable, problems: list[str]) -> Iterator[tuple[str, Any]]:
    """Name and content of every YAML file in ``folder``, in a fixed order."""
    if not folder.is_dir():
        return
    for entry in sorted(folder.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".yaml"):
            try:
                yield entry.name.removesuffix(".yaml"), yaml.load(entry.read_text("utf-8"), yaml.CSafeLoader)
            except yaml.YAMLError as error:
                problems.append(f"{entry.name}: {error}")


def compile_classes(file: str, data: Mapping[str, Any], problems: list[str]) -> Classes:
    """One class file."""
    found: Classes = {}
    for name, members in (data or {}).items():
        identity = f"{file}/{name}"
        if not isinstance(members, list) or not all(isinstance(member, str) for member in members):
            problems.append(f"{identity}: members must be a list of strings (quote yes, no, on, off and numbers)")
            continue
        unique = tuple(dict.fromkeys(member.strip() for member in members))
        found[str(name).lower()] = EquivalenceClass(identity, unique, drawn_for_attacks("class " + identity))
    return found


def compile_topic(
    data: Mapping[str, Any],
    classes: Mapping[str, Classes],
    shared: tuple[Proposition, ...],
    problems: list[str],
) -> Topic:
    """A topic: its own propositions, then the shared ones filled with its arguments."""
    name = str(data["topic"])
    file = str(data["classes"])
    if file not in classes:
        problems.append(f"{name}: no class file {file}")
    known = {**classes.get(COMMON, {}), **classes.get(file, {})}
    own = compile_propositions(name, data["propositions"], known, {}, problems)
    arguments = compile_arguments(name, data.get("args") or {}, problems)
    borrowed = []
    for template in shared:
        parts = (part for frame in template.frames for part in frame.parts)
        needed = {part.name for part in parts if isinstance(part, Slot) and part.group is None}
        values = {key: template.values.get(key) or arguments.get(key, ()) for key in sorted(needed)}
        if all(values.values()):
            identity = f"{name}/{template.name}"
            frames = template.frames
            borrowed.append(proposition(identity, template.kind, True, values, frames, template.place, template.at))
    return Topic(name, str(data["domain"]), str(data["name"]), tuple(data["prompts"]), file, (*own, *borrowed))


def compile_arguments(topic: str, args: Mapping[str, Any], problems: list[str]) -> Values:
    """The arguments of a topic by slot name: meanings, each with its wordings."""
    found: dict[str, tuple[tuple[str, ...], ...]] = {}
    for key in WORDINGS:
        found[key] = (tuple(args[key]),) if args.get(key) else ()
    for key, slot in CHOICES.items():
        found[slot] = tuple(tuple(item) if isinstance(item, list) else (str(item),) for item in args.get(key) or ())
    for slot, meanings in found.items():
        if not meanings:
            problems.append(f"{topic}: no argument {slot}")
    return found


def compile_propositions(
    owner: str, data: Any, classes: Classes, arguments: Values | None, problems: list[str]
) -> tuple[Proposition, ...]:
    """All propositions of a topic; of a template file when ``arguments`` is None (its values come later)."""
    found: dict[str, Proposition] = {}
    for place, item in enumerate(data or ()):
        identity = f"{owner}/{item['id']}"
        if identity in found or item["kind"] not in KINDS:
            problems.append(f"{identity}: second proposition of this id, or unknown kind {item['kind']}")
            continue
        values = {
            name: tuple(tuple(one) if isinstance(one, list) else (str(one),) for one in options)
            for name, options in (item.get("vary") or {}).items()
        }
        names = set(values) if arguments is not None else set(values) | {*WORDINGS, *CHOICES.values()}
        frames = tuple(
            frame
            for length in LENGTHS
            for frame in compile_frames(f"{identity}/{length}", length, item.get(length), classes, names, problems)
        )
        if {frame.length for frame in frames} != set(LENGTHS):
            problems.append(f"{identity}: dropped, not all three lengths have a sound frame")
            continue
        at = str(item.get("at", "any"))
        found[identity] = proposition(identity, item["kind"], arguments is None, values, frames, place, at)
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
    owner: str, length: str, texts: Any, classes: Classes, values: set[str], problems: list[str]
) -> Iterator[Frame]:
    """The frames of one length. At least one stays outside the held-out fifth."""
    sound: list[tuple[str, str, tuple[str | Slot, ...]]] = []
    for number, text in enumerate(texts or ()):
        try:
            sound.append((f"{owner}/{number}", str(text), compile_parts(str(text).strip(), classes, values)))
        except LookupError as error:
            problems.append(f"{owner}/{number}: unknown slot {error} in: {text}")
    held = [drawn_for_attacks("frame " + identity) for identity, _, _ in sound]
    if held and all(held):
        held[stable_hash(owner) % len(held)] = False
    for (identity, text, parts), reserved in zip(sound, held, strict=True):
        yield Frame(identity, length, text, parts, reserved)


def compile_parts(text: str, classes: Classes, values: set[str]) -> tuple[str | Slot, ...]:
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
                raise LookupError(slot)
            parts.append(Slot(name, None, prefix, suffix))
        else:
            if name.lower() not in classes:
                raise LookupError(slot)
            parts.append(Slot(name.lower(), classes[name.lower()], prefix, suffix))
        end = match.end()
    if end < len(text):
        parts.append(text[end:])
    if isinstance(parts[0], str) and parts[0].split(" ", 1)[0].strip(",.'") not in PROPER:
        parts[0] = parts[0][:1].lower() + parts[0][1:]
    if any(mark in "".join(part for part in parts if isinstance(part, str)) for mark in "{}<>"):
        raise LookupError("broken bracket")
    return settle(parts)
