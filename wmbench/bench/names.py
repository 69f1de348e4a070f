"""Looks up every name of a configuration in what is registered, and where null texts come from, before anything else:
settings are classes of plugins, and their modules may import torch for seconds before a typo would show."""

from __future__ import annotations

from wmbench.bench.factories import source_file
from wmbench.config import ALL, CHAIN, FEW, LOCAL, Choice, RunConfig
from wmbench.errors import ConfigError
from wmbench.host import Host
from wmbench.quality import require_judge
from wmbench.runtime.backbones.hf.directory import looks_like_a_path


def spelled(config: RunConfig, host: Host) -> RunConfig:
    """With every name as it was registered, so that `dlm-kgw` is recorded as the `dlm_kgw` that it means."""
    return config.model_copy(
        update={
            "schemes": [_renamed(choice, host.schemes.spelled(choice.name)) for choice in config.schemes],
            "attacks": [_spelled_attack(choice, host) for choice in config.attacks],
            "backbones": [
                choice if looks_like_a_path(choice.name) else _renamed(choice, host.backbones.spelled(choice.name))
                for choice in config.backbones
            ],
        }
    )


def _renamed(choice: Choice, name: str) -> Choice:
    return choice if name == choice.name else Choice(name=name, params=choice.params)


def _spelled_attack(choice: Choice, host: Host) -> Choice:
    """In a chain the settings have their owners' names, too."""
    if CHAIN not in choice.name:
        return _renamed(choice, host.attacks.spelled(choice.name))
    name = CHAIN.join(host.attacks.spelled(step.strip()) for step in choice.name.split(CHAIN))
    owners = {dotted: dotted.rpartition(".") for dotted in choice.params}
    params = {
        f"{host.attacks.spelled(owner)}{dot}{setting}": choice.params[dotted]
        for dotted, (owner, dot, setting) in owners.items()
    }
    return choice if (name, params) == (choice.name, choice.params) else Choice(name=name, params=params)


def require_names(config: RunConfig, host: Host) -> None:
    for choice in config.schemes:
        if choice.name != ALL:
            host.schemes.resolve(choice.name)
        else:
            _refuse_settings(choice)
    for choice in config.backbones:
        if choice.name in host.backbones or not looks_like_a_path(choice.name):
            host.backbones.resolve(choice.name)
    for name in config.datasets:
        host.datasets.resolve(name)
    for name in config.nulls:
        source_file(*host.datasets.resolve(name))
    for choice in config.attacks:
        if choice.name not in (ALL, LOCAL, FEW):
            _require_attack(choice.name, host)
        else:
            _refuse_settings(choice)
    if config.judge is not None:
        require_judge(config.judge)


def _refuse_settings(collective: Choice) -> None:
    """They would reach nothing that it stands for."""
    if collective.params:
        raise ConfigError(
            f"`{collective.name}` has no settings",
            why=f"got {', '.join(collective.params)}",
            hint="say whose setting it is: <name>.<setting>=<value>",
        )


def _require_attack(name: str, host: Host) -> None:
    """Of one attack or a chain; a strength behind a colon is not looked at."""
    for step in filter(None, (step.strip() for step in name.split(CHAIN))):
        head = step.partition(":")[0]
        host.attacks.resolve(head if head in host.attacks else step)
