"""The data files of the lab language: how they are read, and which form they must have (`data/README.md` shows it).

What has another form is left out and told by file and place; all the rest is read.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from importlib.resources.abc import Traversable
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from wmbench.lab.language import DOMAINS, KINDS, ROLES

PROMPTS = 6
"""Wordings of a topic's prompt, at least."""


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """A validator for these names."""

    def check(given: str) -> str:
        if given not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return given

    return check


def of_every_role(given: dict[str, Any]) -> dict[str, Any]:
    """A validator for mappings by role."""
    odd = set(ROLES).symmetric_difference(given)
    if odd:
        raise ValueError(f"must have the roles {', '.join(ROLES)} and no other; look at {', '.join(sorted(odd))}")
    return given


Text = Annotated[str, StringConstraints(strict=True, pattern=r"\S")]
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]
Wordings = Annotated[Texts, BeforeValidator(lambda given: given if isinstance(given, list) else [given])]
"""Of one meaning. A single one may stand without brackets."""


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PropositionForm(_Form):
    """A proposition, of a topic or of the templates."""

    id: Text
    kind: Annotated[str, AfterValidator(one_of(KINDS))]
    at: Annotated[str, AfterValidator(one_of(("any", "first", "last")))] = "any"
    vary: dict[Text, Annotated[tuple[Wordings, ...], Field(min_length=1)]] = {}
    short: Texts
    plain: Texts
    long: Texts


class ArgumentsForm(_Form):
    """What a topic puts into the templates: one meaning each, then lists of meanings."""

    thing: tuple[Text, ...] = ()
    doing: tuple[Text, ...] = ()
    do: tuple[Text, ...] = ()
    benefits: tuple[Wordings, ...] = ()
    mistakes: tuple[Wordings, ...] = ()
    tools: tuple[Wordings, ...] = ()
    people: tuple[Wordings, ...] = ()
    signs: tuple[Wordings, ...] = ()
    starts: tuple[Wordings, ...] = ()


class TopicForm(_Form):
    """A topic, but for its propositions: they are looked at one by one."""

    topic: Text
    domain: Annotated[str, AfterValidator(one_of(DOMAINS))]
    classes: Text
    name: Text
    prompts: Annotated[tuple[Text, ...], Field(min_length=PROMPTS)]
    args: ArgumentsForm
    propositions: list[Any]


class ConnectivesForm(_Form):
    """Openers by role, and closers."""

    openers: Annotated[dict[str, Texts], AfterValidator(of_every_role)]
    closers: Texts


Form = TypeVar("Form", bound=_Form)


FAULTS = {
    "missing": "is missing",
    "extra_forbidden": "is no known entry",
    "string_type": "must be words (quote yes, no, on, off and numbers)",
    "string_pattern_mismatch": "must not be blank",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "too_short": "has too few entries",
}
"""What to say of pydantic's kinds of faults, where its own words speak of Python."""


def well_formed(form: type[Form], data: Any, where: str, problems: list[str]) -> Form | None:
    """The data in this form; None, and what is wrong with it, if they have another."""
    try:
        return form.model_validate(data)
    except ValidationError as error:
        for fault in error.errors():
            place = ": ".join([where, "/".join(map(str, fault["loc"]))] if fault["loc"] else [where])
            given = "" if fault["type"] in ("missing", "extra_forbidden") else f" (given: {_shortened(fault['input'])})"
            problems.append(f"{place} {FAULTS.get(fault['type'], fault['msg'].removeprefix('Value error, '))}{given}")
        return None


def _shortened(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def read_files(root: Traversable, folder: str, problems: list[str]) -> Iterator[tuple[str, str, Any]]:
    """Of every YAML file in a folder below the root, in a fixed order: name, path from the root, and content."""
    place = root.joinpath(*folder.split("/")) if folder else root
    if not place.is_dir():
        return
    for entry in sorted(place.iterdir(), key=lambda item: item.name):
        if entry.name.endswith(".yaml"):
            path = f"{folder}/{entry.name}".lstrip("/")
            try:
                content = _content(entry.read_text("utf-8"), path, problems)
            except (yaml.YAMLError, UnicodeDecodeError) as error:
                problems.append(f"{path}: {' '.join(str(error).split())}")
                continue
            yield entry.name.removesuffix(".yaml"), path, content


class _Loader(yaml.CSafeLoader):
    """Remembers keys that stand twice in a mapping: YAML would silently keep the last."""

    repeated: list[tuple[Hashable, int]]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key, _ in node.value:
            if key.value in seen:
                self.repeated.append((key.value, key.start_mark.line + 1))
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _content(text: str, path: str, problems: list[str]) -> Any:
    loader = _Loader(text)
    loader.repeated = []
    try:
        content = loader.get_single_data()
    finally:
        loader.dispose()
    problems.extend(f"{path}, line {line}: {key!r} stands in this file twice" for key, line in loader.repeated)
    return content
