"""What a run is asked to do: preset < file < command line, checked field by field.

    config = load_config(preset="quick", file="run.yaml", options={"samples": 4})

A `RunConfig` names things; `wmbench.bench.plan` looks them up among the plugins and turns it into runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, model_validator

from wmbench.errors import ConfigError, UnknownNameError
from wmbench.keys import KeySource
from wmbench.presets import DEFAULT_PRESET, PRESETS
from wmbench.prf import Prf
from wmbench.redaction import shown
from wmbench.registry import ALL as ALL
from wmbench.registry import FEW as FEW
from wmbench.registry import LOCAL as LOCAL
from wmbench.registry import folded
from wmbench.settings import Settings as Settings
from wmbench.settings import merged as merged
from wmbench.settings import parse_override as parse_override
from wmbench.settings import parse_overrides as parse_overrides
from wmbench.settings import read_settings_file as read_settings_file
from wmbench.settings import validated as validated

DEFAULT_BACKBONE = "mini"
"""Meant by settings of a backbone where none is named."""
CHAIN = "|"
"""Between attacks that work on each other's results."""


LIMITS: Final = ("max_calls", "max_cost")
"""Budgets of a command: every attack that has such a setting gets them."""
HOW_NOT_WHAT: Final = frozenset({"batch_size", "failure_limit", "output", "retry_failed", "workers", *LIMITS})
"""Fields that say how to work, not what to compute: they are in no hash and in no result."""


_EXPLAINED: Final = "`wmbench run --help` explains them as options, such as --heldout-texts for `heldout_texts`"


def _named(value: Any) -> Any:
    """`none` is short for `{name: none}`."""
    return {"name": value} if isinstance(value, str) else value


class Choice(BaseModel):
    """A registered thing by name, with settings of its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1)
    params: Settings = Field(default_factory=dict)


Chosen = Annotated[Choice, BeforeValidator(_named)]


class RunConfig(BaseModel):
    """One comparison: every scheme on every prompt dataset, each then attacked in every way."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schemes: list[Chosen] = Field(default_factory=list, description="Watermark schemes; `all` means all.")
    attacks: list[Chosen] = Field(
        default_factory=list,
        description="Attacks: name, name:strength, name:grid, first|second; `all` that work here; `local` free ones.",
    )
    backbones: list[Chosen] = Field(
        default_factory=list,
        description="Diffusion language models; empty: `mini`, else `tiny`. `backbone: NAME` is short for one.",
    )
    datasets: list[str] = Field(default_factory=list, description="Prompt datasets; empty: `finance`, else `toy`.")
    samples: int | None = Field(
        None, ge=1, le=1_000_000, description="Prompts taken from each dataset; None: all of them."
    )
    top_up: bool = Field(
        False, description="Answer further prompts until `samples` texts are kept, at most three times as many."
    )
    retries: int = Field(
        0, ge=0, le=100, description="Answer a prompt again, so often, when the filters drop its text (baselines: 10)."
    )
    decoding: Settings = Field(
        default_factory=dict, description="Decoding settings that differ from the published ones."
    )
    seed: int = Field(0, ge=0, lt=2**63, description="With the sample id it fixes all randomness.")
    key: str | None = Field(
        None, description="`env:VARIABLE` or `file:PATH`; None: $WMBENCH_KEY, else the user's key file."
    )
    prf: Prf | None = Field(
        None,
        description="For every scheme that has this setting: `hmac` (your key) or `official` (as published).",
    )
    alpha: float = Field(0.01, gt=0, lt=1, description="Level at which a text counts as detected.")
    filters: Settings = Field(
        default_factory=dict, description="What a sample must be to count; by default the paper's filters."
    )
    nulls: list[str] = Field(
        default_factory=list, description="Null texts; the first set calibrates. Empty: `lab`, fresh lab documents."
    )
    normalise: bool = Field(
        False, description="Undo look-alike letters, invisible characters and odd spaces before detection."
    )
    calibration_texts: int = Field(5300, ge=1, description="Null texts that p-values are ranked among.")
    heldout_texts: int = Field(1000, ge=1, description="Other null texts, on which false positives are measured.")
    attacked_nulls: int = Field(
        0, ge=0, description="Held-out null texts that are attacked too, for false positives under attack; 0: none."
    )
    lengths: list[Annotated[int, Field(ge=1)]] = Field(
        default_factory=list, description="Numbers of tokens to detect after: how many does it take? Empty: not asked."
    )
    judge: str | None = Field(None, description="Judge of fluency: `mini-judge` (default) or `hf:<causal model>`.")
    keys: int = Field(1, ge=0, description="Wrong keys, derived from the key, that the controls average over.")
    batch_size: int = Field(8, ge=1, description="Samples decoded side by side; changes speed, never the texts.")
    failure_limit: float = Field(0.05, ge=0, le=1, description="Share of failed items above which the exit code is 1.")
    workers: int = Field(1, ge=1, description="Processes that share the work; changes speed, never a result.")
    retry_failed: bool = Field(False, description="Retry the texts on which an attack failed before.")
    max_calls: int | None = Field(None, ge=0, description="Calls that all LLM attacks of the command may make.")
    max_cost: float | None = Field(None, ge=0, description="What they may spend; they need their prices, too.")
    output: Path = Field(Path("runs"), description="Folder that holds the run folders.")

    _said: frozenset[str] = PrivateAttr(default=frozenset())

    @model_validator(mode="after")
    def _consistent(self) -> RunConfig:
        if self.top_up and self.samples is None:
            raise ValueError("`top_up` needs `samples`: how many texts are wanted?")
        return self

    @property
    def passed(self) -> Settings:
        """What the user asked for himself, in a file or on the command line."""
        return self.model_dump(mode="json", include=set(self._said - HOW_NOT_WHAT))

    @property
    def limits(self) -> Settings:
        """The budgets that are set."""
        return self.model_dump(include=set(LIMITS), exclude_none=True)

    @property
    def for_all_schemes(self) -> Settings:
        """Settings of every scheme that knows them, below its own."""
        return self.model_dump(include={"prf"}, exclude_none=True)

    @property
    def defaulted(self) -> Settings:
        """What the preset or the library filled in."""
        return self.model_dump(mode="json", exclude=set(self._said | HOW_NOT_WHAT))


@dataclass(frozen=True, slots=True)
class Overrides:
    """Single settings from the command line, applied to whatever preset, file and options have chosen."""

    schemes: Settings = field(default_factory=dict)
    """-S name=value or -S scheme.name=value"""
    attacks: Settings = field(default_factory=dict)
    """-A attack.name=value"""
    backbone: Settings = field(default_factory=dict)
    """-B name=value"""
    decoding: Settings = field(default_factory=dict)
    """-D name=value"""


def load_config(
    preset: str = DEFAULT_PRESET,
    file: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    overrides: Overrides | None = None,
) -> RunConfig:
    """The configuration of preset, file, options and overrides."""
    if preset not in PRESETS:
        raise UnknownNameError("preset", preset, PRESETS, hint="name one of the known presets")
    said = merged(_plural(read_settings_file(Path(file)) if file else {}), _plural(options or {}))
    where = str(file) if file else None
    if isinstance(said.get("schemes"), list):
        said["schemes"] = _as_in_preset(said["schemes"], PRESETS[preset])
    effective = merged(PRESETS[preset], said)
    # Overrides need lists and dictionaries to work on.
    validated(RunConfig, effective, "run configuration", where, _EXPLAINED)
    said = _overridden(said, effective, overrides or Overrides())
    config = validated(RunConfig, merged(PRESETS[preset], said), "run configuration", where, _EXPLAINED)
    if config.key is not None:
        key_source(config.key)  # a mistake is reported before anything is loaded
    config._said = frozenset(said)
    return config


def _as_in_preset(schemes: Sequence[Any], preset: Settings) -> list[Any]:
    """Schemes that are only named keep the settings that the preset has for them."""
    own = {folded(one["name"]): one for one in preset.get("schemes", []) if isinstance(one, dict)}
    return [own.get(folded(one), one) if isinstance(one, str) else one for one in schemes]


def _plural(settings: Mapping[str, Any]) -> Settings:
    """`backbone: x` is short for `backbones: [x]`."""
    result = dict(settings)
    if (one := result.pop("backbone", None)) is not None:
        if "backbones" in result:
            raise ConfigError("`backbone` and `backbones` are both given", hint="keep `backbones`")
        result["backbones"] = [one]
    return result


def _overridden(said: Settings, effective: Settings, overrides: Overrides) -> Settings:
    said = dict(said)
    if overrides.schemes:
        said["schemes"] = override_choices(effective.get("schemes", []), overrides.schemes, "scheme", "-S")
    if overrides.attacks:
        said["attacks"] = override_choices(effective.get("attacks", []), overrides.attacks, "attack", "-A")
    if overrides.backbone:
        chosen = effective.get("backbones") or [DEFAULT_BACKBONE]
        said["backbones"] = override_choices(chosen, overrides.backbone, "backbone", "-B")
    if overrides.decoding:
        own = {name.removeprefix("decoding."): value for name, value in overrides.decoding.items()}
        said["decoding"] = merged(effective.get("decoding", {}), own)
    return said


def key_source(text: str) -> KeySource:
    """`env:VARIABLE` or `file:PATH`."""
    kind, colon, name = text.partition(":")
    if not colon or kind not in ("env", "file") or not name:
        raise ConfigError(
            "a key is named as env:VARIABLE or file:PATH",
            where="key",
            why=f"got {shown(text)}",
            hint="for instance --key file:~/.config/wmbench/key",
        )
    return KeySource("env", name) if kind == "env" else KeySource("file", str(Path(name).expanduser()))


def override_choices(choices: Sequence[Any], overrides: Settings, kind: str, option: str) -> list[Any]:
    """Apply `thing.name=value` (or `name=value` when only one thing is chosen) to a list of choices."""
    chosen: list[Settings] = [dict(_named(choice)) for choice in choices]
    names = [str(choice.get("name", "")) for choice in chosen]
    for dotted, value in overrides.items():
        owner, dot, setting = dotted.rpartition(".")
        if dot and not any(_step_of(owner, name) for name in names):
            if not {ALL, LOCAL, FEW} & set(names):
                raise UnknownNameError(f"{kind} in {option}", owner, names, hint=f"add --{kind} {owner}")
            chosen.append({"name": owner})  # chosen by `all` or `local`; now by itself, with its own settings
            names.append(owner)
        if not dot and len(chosen) != 1:
            why = f"chosen: {', '.join(names) or 'none'}"
            raise ConfigError(
                f"{option} {dotted}: which {kind} is meant?", why=why, hint=f"{option} <{kind}>.{dotted}=..."
            )
        for choice, name in zip(chosen, names, strict=True):
            step = _step_of(owner, name)
            if not dot or step:
                # In a chain of attacks a setting keeps its owner's name.
                full = f"{step}.{setting}" if dot else dotted
                choice["params"] = {**choice.get("params", {}), full if CHAIN in name else setting: value}
    return chosen


def _step_of(owner: str, name: str) -> str:
    """Which attack of `first|second:0.2`, or which thing, a setting's owner is; empty if none."""
    steps = [step.strip().partition(":")[0] for step in name.split(CHAIN)]
    return next((step for step in steps if folded(step) == folded(owner)), "")
