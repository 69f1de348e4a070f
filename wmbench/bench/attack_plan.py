"""Attacks as the user names them: `delete`, `delete:0.3`, `delete:grid`, `lab-rewrite|delete:0.2`, `few`, `local`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final, get_args

from pydantic import BaseModel

from wmbench.bench.resolved import Resolved, known_settings, settings_of, slug, spec_hash
from wmbench.config import ALL, CHAIN, FEW, LOCAL, Choice
from wmbench.errors import ConfigError
from wmbench.host import Host, PluginRecord
from wmbench.settings import Settings
from wmbench.types import AttackInfo, CostClass

NO_LIMITS: Final[Mapping[str, Any]] = {}
GRID = "grid"
"""In place of a strength: every strength the attack declares for its curve."""
FIRST_LOOK = ("lab-rewrite", "lab-compress", "lab-expand", "lab-document", "delete", "swap", "crop", "identity")
"""`few` are the first four of these that the backbone's texts can go through: for the lab the four of the paper."""


@dataclass(frozen=True)
class AttackChain:
    """One attack, or several, each on the result of the one before."""

    steps: tuple[Resolved[AttackInfo], ...]
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Budgets of the command, which also hold for the attacks that a step builds on."""
    cost: CostClass = "local"
    """The dearest of its steps, and of the attacks that they build on."""
    is_optional: bool = False
    """Brought by `all`: left out where it cannot work."""

    @property
    def label(self) -> str:
        """Names its files."""
        return "+".join(step.label for step in self.steps)

    @property
    def plugins(self) -> list[PluginRecord]:
        return [step.entry.plugin for step in self.steps]

    def describe(self) -> Settings:
        """For run.json and plans. The strength is that of the last step that has one; what differs in nothing else is
        one curve."""
        described = [step.describe() for step in self.steps]
        return {
            "name": CHAIN.join(step["name"] for step in described),
            "settings": described[0]["settings"]
            if len(described) == 1
            else {"steps": [{"name": step["name"], **step["settings"]} for step in described]},
            "plugin": ", ".join(dict.fromkeys(step["plugin"] for step in described)),
            **self._place_on_a_curve(),
        }

    def _place_on_a_curve(self) -> Settings:
        strong = [i for i, step in enumerate(self.steps) if step.info.strength is not None]
        if not strong:
            return {"strength": None, "curve": None}
        last = self.steps[strong[-1]]
        assert last.info.strength is not None
        labels = [step.label for step in self.steps]
        labels[strong[-1]] = _label(last.info, last.settings, without=last.info.strength)
        return {"strength": last.dump()[last.info.strength], "curve": f"{'+'.join(labels)}: {last.info.strength}"}


def resolve_attacks(
    choices: Sequence[Choice], host: Host, backbone: str, limits: Mapping[str, Any] = NO_LIMITS
) -> tuple[AttackChain, ...]:
    """Everything that is chosen, in order. What `all`, `local` or a grid brings is left out where it is chosen by
    itself, with its own settings; the same attack chosen twice by itself is an error."""
    named = {choice.name for choice in choices}
    own: list[AttackChain] = []
    found: list[tuple[AttackChain, bool]] = []
    for choice in _without_repetitions(choices):
        members = _members(choice, host, backbone)
        members = [member for member in members if member is choice or member.name not in named]
        chains = [resolve_attack(member, host, limits) for member in members]
        chains = [replace(chain, is_optional=choice.name == ALL) for chain in chains]
        is_own = members == [choice]
        own += chains if is_own else []
        found += [(chain, is_own) for chain in chains]
    _refuse_twice(own)
    seen = {chain.label for chain in own}
    result = []
    for chain, is_own in found:
        if is_own or chain.label not in seen:
            seen.add(chain.label)
            result.append(chain)
    return tuple(result)


def _without_repetitions(choices: Iterable[Choice]) -> list[Choice]:
    """Named twice without settings: once is meant."""
    result: list[Choice] = []
    for choice in choices:
        if choice.params or all(choice.name != other.name for other in result):
            result.append(choice)
    return result


def _members(choice: Choice, host: Host, backbone: str) -> list[Choice]:
    """What a collective name stands for; the choice itself when it is none."""
    if choice.name == ALL:
        return [Choice(name=name) for name in host.attacks]
    if choice.name == LOCAL:
        return [Choice(name=name) for name in local_attacks(host, backbone)]
    if choice.name == FEW:
        suited = local_attacks(host, backbone)
        return [Choice(name=name) for name in [name for name in FIRST_LOOK if name in suited][:4]]
    steps = [_strengths(step, host) for step in choice.name.split(CHAIN)]
    if all(len(strengths) == 1 for strengths in steps):
        return [choice]
    return [Choice(name=CHAIN.join(names), params=choice.params) for names in product(*steps)]


def _strengths(step: str, host: Host) -> list[str]:
    head, _, strength = step.strip().partition(":")
    if strength != GRID or head not in host.attacks:
        return [step]
    grid = host.attacks[head].info.grid
    if not grid:
        raise ConfigError(f"attack {head!r} declares no strengths for a curve", hint=f"--attack {head}")
    return [f"{head}:{value:g}" for value in grid]


def local_attacks(host: Host, backbone: str) -> list[str]:
    """Free attacks that understand what this backbone writes."""
    infos = {name: entry.info for name, entry in host.attacks.items()}
    suited = (name for name, info in infos.items() if not info.backbones or backbone in info.backbones)
    return [name for name in suited if infos[name].cost == "local"]


def resolve_attack(choice: Choice, host: Host, limits: Mapping[str, Any] = NO_LIMITS) -> AttackChain:
    """`name`, `name:strength`, or several of them with `|` between. Settings of one step are `name.setting`."""
    names = [name.strip() for name in choice.name.split(CHAIN)]
    if not all(names):
        raise ConfigError(f"attack {choice.name!r} has an empty step", hint=f"write it as first{CHAIN}second")
    if len(names) == 1:
        return _chain((_step(names[0], choice.params, host, limits),), host, limits)
    settings: dict[str, dict[str, Any]] = {name.partition(":")[0]: {} for name in names}
    for dotted, value in choice.params.items():
        owner, _, setting = dotted.rpartition(".")
        if owner not in settings:
            raise ConfigError(
                f"attack {choice.name!r}: which step is {dotted!r} for?",
                hint=f"write it as <attack>.{setting}, with one of {', '.join(settings)}",
            )
        settings[owner][setting] = value
    steps = tuple(_step(name, settings[name.partition(":")[0]], host, limits) for name in names)
    return _chain(steps, host, limits)


def _chain(steps: tuple[Resolved[AttackInfo], ...], host: Host, limits: Mapping[str, Any]) -> AttackChain:
    used = [chain for step in steps for chain in getattr(step.settings, "uses", {}).get("attacks", {})]
    inner = [host.attacks.spelled(name.strip()).partition(":")[0] for chain in used for name in chain.split(CHAIN)]
    infos = [*(step.info for step in steps), *(host.attacks[name].info for name in inner if name in host.attacks)]
    return AttackChain(steps, limits, max((info.cost for info in infos), key=get_args(CostClass).index))


def _step(name: str, params: Mapping[str, Any], host: Host, limits: Mapping[str, Any]) -> Resolved[AttackInfo]:
    """`name` or `name:strength`. An attack's own budget goes before that of the command."""
    head, colon, strength = name.partition(":")
    if colon and head in host.attacks:
        info = host.attacks[head].info
        if info.strength is None:
            raise ConfigError(f"attack {head!r} has no strength", why=f"got {name!r}", hint=f"--attack {head}")
        if info.strength in params:
            raise ConfigError(
                f"attack {head!r} is given two strengths",
                why=f"got {name!r}, and {info.strength} = {params[info.strength]!r}",
                hint=f"leave out one of them: --attack {name}, or --attack {head} with the setting",
            )
        name, params = head, {info.strength: strength, **params}
    entry, argument = host.attacks.resolve(name)
    settings = settings_of(entry, "attack", {**known_settings(entry, limits), **params})
    return Resolved(entry, settings, _label(entry.info, settings), argument)


def _label(info: AttackInfo, settings: BaseModel | None, without: str = "") -> str:
    """The name; behind it the strength, or a hash, when the settings (`without` one) are not the attack's own."""
    if settings is None:
        return slug(info.name)
    changed = settings.model_dump(mode="json", exclude_defaults=True, exclude={without})
    if not changed:
        return slug(info.name)
    if info.strength is not None and set(changed) == {info.strength}:
        return slug(f"{info.name}-{changed[info.strength]}")
    return slug(f"{info.name}-{spec_hash(changed)[:6]}")


def _refuse_twice(chains: Iterable[AttackChain]) -> None:
    seen: set[str] = set()
    for chain in chains:
        if chain.label in seen:
            raise ConfigError(
                f"attack {chain.label!r} is chosen twice", hint="remove one of them, or give them different settings"
            )
        seen.add(chain.label)
