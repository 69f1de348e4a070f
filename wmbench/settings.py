"""Settings as users write them: files, `name=value`, layers of them; and errors that name the field and the value."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from wmbench.errors import ConfigError
from wmbench.redaction import shown

_EXAMPLE = "for instance `schemes: [denmark]` and `samples: 8` on two lines"

Settings = dict[str, Any]
Model = TypeVar("Model", bound=BaseModel)


def read_settings_file(path: Path) -> Settings:
    """A YAML or TOML file as a dictionary."""
    try:
        text = path.read_text(encoding="utf-8")
        data = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except OSError as error:
        hint = "check the path of the configuration file"
        raise ConfigError(
            "the configuration file cannot be read", where=str(path), why=error.strerror, hint=hint
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        kind = "TOML" if path.suffix == ".toml" else "YAML"
        raise ConfigError(
            f"the configuration file is not valid {kind}",
            where=str(path),
            why=str(error),
            hint="correct it; files that end in .toml are read as TOML, all others as YAML",
        ) from error
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ConfigError(
            "the configuration file is not a list of `name: value` settings", where=str(path), hint=_EXAMPLE
        )
    return data


def parse_override(text: str, option: str) -> tuple[str, Any]:
    """`name=value`, the value read as YAML: 3, 0.5, true, null, [1, 2], text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ConfigError(
            f"{option} expects name=value", why=f"got {shown(text)}", hint=f"for instance {option} delta=2.0"
        )
    try:
        return name.strip(), float(value) if _is_scientific(value) else yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"{option} {name.strip()}: the value is not YAML", why=str(error)) from error


def _is_scientific(text: str) -> bool:
    """YAML 1.1 reads 1e-3 as text; nobody who types it means that."""
    return re.fullmatch(r"\s*[-+]?\d+(\.\d*)?[eE][-+]?\d+\s*", text) is not None


def parse_overrides(texts: Iterable[str], option: str) -> Settings:
    return dict(parse_override(text, option) for text in texts)


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Settings:
    """`above` wins; dictionaries are merged, everything else is replaced."""
    result = dict(below)
    for name, value in above.items():
        old = result.get(name)
        result[name] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


# --- errors without a pydantic traceback -----------------------------------------------------------------------


def validated(
    model: type[Model],
    settings: Mapping[str, Any],
    what: str,
    where: str | None = None,
    listed: str = "run `wmbench ls --settings` to see every setting with its default",
) -> Model:
    """An instance of the model, or a ConfigError that names the field, the value and the near names; `listed` says
    where its settings are explained."""
    try:
        # Unknown names are refused even where the plugin's model would ignore them: a misspelt setting never passes.
        return model.model_validate(dict(settings), extra=model.model_config.get("extra") or "forbid")
    except ValidationError as error:
        found: list[Settings] = [dict(problem) for problem in error.errors(include_url=False)]
        problems = [_problem(model, problem, what) for problem in found]
        place: Sequence[str | int] = found[0]["loc"]
        known = ", ".join(_known_at(model, place)) or "it has none"
        unknown_only = all(problem["type"] == "extra_forbidden" for problem in found)
        raise ConfigError(
            problems[0],
            where=where,
            why="; ".join(problems[1:]) or (f"known settings: {known}" if unknown_only else None),
            hint="correct the value" if not unknown_only else "correct the name" if len(place) > 1 else listed,
        ) from None  # the cause would show every input, the good ones too


def _problem(model: type[BaseModel], problem: Settings, what: str) -> str:
    path = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        name = str(problem["loc"][-1])
        near = difflib.get_close_matches(name, _known_at(model, problem["loc"]), n=2, cutoff=0.5)
        meant = f": did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
        return f"{what} has no setting {path!r}{meant}"
    reason = problem["msg"].removeprefix("Value error, ")
    if not path:
        return f"{what}: {reason}"
    if problem["type"] == "missing":
        return f"{what}: {path} is required"
    return f"{what}: {path} = {shown(problem['input'])}: {reason[0].lower()}{reason[1:]}"


def _known_at(model: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """The names that could stand at a place such as `schemes.0.parms`. What is no field on the way there, a number in a
    list for instance, leads from none to another."""
    models = [model]
    for part in place[:-1]:
        if fields := [owner.model_fields[part] for owner in models if part in owner.model_fields]:
            models = [inner for field in fields for inner in _models_in(field.annotation)]
    return sorted(name for owner in models for name in owner.model_fields)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)
