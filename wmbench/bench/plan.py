"""From names to runs: looks up what the configuration names, checks every setting, and gives each run its identity.

One run is one scheme, one backbone, one prompt dataset. Its folder is named by a hash over what determines its texts,
so the same command finds its own work again. Filters, attacks, null texts, alpha and settings that only the detector
reads are not part of it: they have files of their own in the folder, so that changing them decodes nothing again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wmbench.bench.attack_plan import AttackChain, resolve_attacks
from wmbench.bench.draws import PROMPTS_PER_TEXT
from wmbench.bench.filters import FilterSettings
from wmbench.bench.names import require_names, spelled
from wmbench.bench.resolved import Resolved, known_settings, settings_of, slug, spec_hash
from wmbench.config import ALL, DEFAULT_BACKBONE, Choice, RunConfig
from wmbench.errors import ConfigError
from wmbench.host import Host, PluginRecord, Registry
from wmbench.runtime.backbones.hf.directory import Checkpoint, looks_like_a_path
from wmbench.runtime.settings import Decoding
from wmbench.settings import Settings, merged, validated
from wmbench.types import BackboneEntry, DatasetInfo, KeyUse, Product, SchemeInfo

PREFERRED_BACKBONES = (DEFAULT_BACKBONE, "tiny")
PREFERRED_DATASETS = ("finance", "toy")
PREFERRED_NULLS = ("lab",)
"""What is used when nothing is named: the first one that is installed."""
LONGEST_NULL = 300
"""Tokens of the paper's answers and of its longest null texts."""


@dataclass(frozen=True)
class RunPlan:
    """One run, resolved. Nothing is loaded yet."""

    config: RunConfig
    scheme: Resolved[SchemeInfo]
    backbone: Resolved[BackboneEntry]
    dataset: Resolved[DatasetInfo]
    decoding: Decoding
    attacks: tuple[AttackChain, ...]
    filters: FilterSettings
    nulls: tuple[Resolved[DatasetInfo], ...]
    """The first one calibrates; false positives are measured on all."""
    number: int
    """Its place among the plans of its configuration: by both a worker process finds it."""

    @property
    def key_use(self) -> KeyUse:
        """What the scheme does with the key as it is configured: `prf: official` puts a published constant in its
        place. A configuration says so by a property of this name; otherwise the scheme's own declaration counts."""
        found: KeyUse = getattr(self.scheme.settings, "key_use", self.scheme.info.key_use)
        return found

    @property
    def is_control(self) -> bool:
        """Its texts are unmarked: they are null texts to the other schemes."""
        return self.key_use == "none"

    @property
    def null_lengths(self) -> tuple[int, int]:
        """Fewest and most tokens of a null text, as of an answer that counts: 150 and 300 for answers of 300."""
        most = min(LONGEST_NULL, self.decoding.max_new_tokens)
        return max(1, most // 2), most

    @property
    def prompt_limit(self) -> int | None:
        """Prompts that may be answered; None: all of the dataset."""
        samples = self.config.samples
        return samples * PROMPTS_PER_TEXT if samples is not None and self.config.top_up else samples

    @property
    def plugins(self) -> list[PluginRecord]:
        """Every plugin that has a part in the run."""
        chosen: list[Resolved[Any]] = [self.scheme, self.backbone, self.dataset]
        chosen += [step for attack in self.attacks for step in attack.steps]
        return sorted({thing.entry.plugin for thing in chosen}, key=lambda plugin: plugin.name)

    @property
    def title(self) -> str:
        return f"{self.scheme.label} on {self.backbone.label}, prompts {self.dataset.label}"

    def settings_behind(self, product: Product) -> Settings:
        """Settings of the scheme that its texts, features or scores depend on."""
        return self.scheme.info.settings_behind(product, self.scheme.dump())

    @property
    def approximations(self) -> Settings:
        """Approximate options of the scheme that are on. By default none is."""
        settings = self.scheme.dump()
        return {name: settings[name] for name in sorted(self.scheme.info.approximate) if settings.get(name)}

    def identity(self, *, backbone: str, codec: str, prompts: str, key_id: str | None) -> Settings:
        """Everything that determines the texts of the run; the arguments are fingerprints."""
        return {
            "scheme": {
                "name": self.scheme.info.name,
                "alg_id": self.scheme.info.alg_id,
                "settings": self.settings_behind("texts"),
            },
            "backbone": {"name": self.backbone.info.name, "settings": self.backbone.dump(), "fingerprint": backbone},
            "codec": codec,
            "prompts": prompts,
            "decoding": self.decoding.model_dump(mode="json"),
            "seed": self.config.seed,
            "key_id": key_id,
            **({"retries": self.config.retries} if self.config.retries else {}),
        }

    def folder(self, identity: Mapping[str, Any]) -> Path:
        parts = (self.scheme.label, self.backbone.label, self.dataset.label)
        return self.config.output / "_".join([*(part.replace("_", "-") for part in parts), spec_hash(identity)])

    def describe(self) -> Settings:
        return {
            "scheme": {**self.scheme.describe(), "alg_id": self.scheme.info.alg_id, "status": self.scheme.info.status},
            "backbone": self.backbone.describe(),
            "dataset": self.dataset.label,
            "samples": self.config.samples,
            "top_up": self.config.top_up,
            "retries": self.config.retries,
            "decoding": self.decoding.model_dump(mode="json"),
            "attacks": {attack.label: attack.describe() for attack in self.attacks},
            "seed": self.config.seed,
            "alpha": self.config.alpha,
            "filters": self.filters.model_dump(mode="json"),
            "nulls": {
                "sets": [null.label for null in self.nulls],
                "tokens": list(self.null_lengths),
                "calibration": self.config.calibration_texts,
                "heldout": self.config.heldout_texts,
            },
        }


def resolve_runs(config: RunConfig, host: Host) -> list[RunPlan]:
    """One plan per backbone, scheme and dataset, in the order they were named."""
    if not config.schemes:
        raise ConfigError(
            "no scheme is chosen", why=f"known: {', '.join(host.schemes) or 'none'}", hint="add --scheme <name>"
        )
    config = spelled(config, host)
    require_names(config, host)
    backbones = [resolve_backbone(choice, host) for choice in config.backbones or [_default_backbone(host)]]
    prompts = config.datasets or [_preferred(PREFERRED_DATASETS, host.datasets)]
    datasets = [resolve_dataset(name, host) for name in prompts]
    nulls = tuple(resolve_nulls(config, host))
    _refuse_twice("backbone", (backbone.label for backbone in backbones))
    _refuse_twice("dataset", (dataset.label for dataset in datasets))
    _refuse_twice("null set", (null.label for null in nulls))
    runs: list[RunPlan] = []
    for backbone in backbones:
        attacks = resolve_attacks(config.attacks, host, backbone.info.name, config.limits)
        for choice in _expanded(config.schemes, host.schemes):
            for dataset in datasets:
                runs.append(_run(config, choice, backbone, dataset, attacks, nulls, host, len(runs)))
    return runs


def resolve_one(config: RunConfig, host: Host) -> RunPlan:
    """The plan of a command that works with one scheme on one backbone; of several data sets the first."""
    plans = resolve_runs(config, host)
    if len(plans) > len({plan.dataset.label for plan in plans}):
        chosen = dict.fromkeys(f"{plan.scheme.label} on {plan.backbone.label}" for plan in plans)
        raise ConfigError(
            "one scheme on one backbone is needed here",
            why=f"chosen: {', '.join(chosen)}",
            hint="name one of each, as in --scheme denmark --backbone mini",
        )
    return plans[0]


def _run(
    config: RunConfig,
    choice: Choice,
    backbone: Resolved[BackboneEntry],
    dataset: Resolved[DatasetInfo],
    attacks: tuple[AttackChain, ...],
    nulls: tuple[Resolved[DatasetInfo], ...],
    host: Host,
    number: int,
) -> RunPlan:
    """One scheme with its published settings for this backbone and dataset, below the user's own."""
    entry, _ = host.schemes.resolve(choice.name)
    published = _published(entry.info, backbone, dataset)
    below = {name: value for name, value in published.items() if name != "decoding"}
    below |= known_settings(entry, config.for_all_schemes)
    scheme = Resolved(entry, settings_of(entry, "scheme", merged(below, choice.params)), slug(choice.name))
    decoding = _decoding(backbone.info.decoding, published.get("decoding", {}), config.decoding)
    return RunPlan(config, scheme, backbone, dataset, decoding, attacks, _filters(config, decoding), nulls, number)


def _expanded(choices: Iterable[Choice], registry: Registry[Any]) -> list[Choice]:
    """`all` becomes names; what is also named by itself keeps its own settings."""
    choices = list(choices)
    wanted: list[Choice] = []
    for choice in choices:
        wanted += [Choice(name=name) for name in registry] if choice.name == ALL else [choice]
    own = {choice.name for choice in choices}
    seen: set[str] = set()
    result = []
    for choice in wanted:
        if choice.name in own and choice not in choices:
            continue
        if choice.name in seen and not choice.params:
            continue  # named twice without settings: once is meant
        seen.add(choice.name)
        result.append(choice)
    return result


def _default_backbone(host: Host) -> Choice:
    return Choice(name=_preferred(PREFERRED_BACKBONES, host.backbones))


def resolve_backbone(choice: Choice, host: Host) -> Resolved[BackboneEntry]:
    """By a registered name, with what stands behind its colon, or by the directory of a model."""
    if choice.name not in host.backbones and looks_like_a_path(choice.name):
        return _backbone_in_directory(choice, host)
    entry, argument = host.backbones.resolve(choice.name)
    params = {"argument": argument, **choice.params} if argument else choice.params
    return Resolved(entry, settings_of(entry, "backbone", params), slug(choice.name)[:40], argument)


def _backbone_in_directory(choice: Choice, host: Host) -> Resolved[BackboneEntry]:
    """Of `--backbone <directory>`: the first registered one whose model type is that of the directory."""
    checkpoint = Checkpoint.open(choice.name)
    fitting = [entry for entry in host.backbones.values() if checkpoint.model_type in entry.info.model_types]
    if not fitting:
        known = sorted({kind for entry in host.backbones.values() for kind in entry.info.model_types})
        raise ConfigError(
            f"no backbone loads model_type {checkpoint.model_type!r}",
            where=str(checkpoint.directory / "config.json"),
            why=f"known: {', '.join(known)}",
            hint="a plugin can register one: docs/hooks.md",
        )
    entry = fitting[0]
    params = {"path": choice.name, **choice.params}
    label = f"{entry.info.name.rstrip(':')}-{checkpoint.directory.resolve().name}"
    return Resolved(entry, settings_of(entry, "backbone", params), slug(label)[:40])


def resolve_nulls(config: RunConfig, host: Host) -> list[Resolved[DatasetInfo]]:
    return [
        resolve_dataset(name, host, "nulls") for name in config.nulls or [_preferred(PREFERRED_NULLS, host.datasets)]
    ]


def _filters(config: RunConfig, decoding: Decoding) -> FilterSettings:
    """The paper's 150 of 300 tokens; half of the answer where that is shorter."""
    fewest = min(LONGEST_NULL, decoding.max_new_tokens) // 2
    listed = "`wmbench validate` prints them with their values"
    return validated(FilterSettings, {"min_tokens": fewest, **config.filters}, "filters", listed=listed)


def resolve_dataset(name: str, host: Host, kind: Literal["prompts", "nulls"] = "prompts") -> Resolved[DatasetInfo]:
    entry, argument = host.datasets.resolve(name)
    if entry.info.kind != kind:
        holds, wanted = ("null texts", "prompts") if kind == "prompts" else ("prompts", "null texts")
        raise ConfigError(f"dataset {name!r} holds {holds}, not {wanted}", hint="run `wmbench ls datasets`")
    head = entry.info.name.rstrip(":")
    # The label names the folder. A long or secret-looking path adds nothing that the hash does not say.
    label = f"{head}-{Path(argument).stem}" if argument else head
    return Resolved(entry, None, slug(label)[:40], argument)


def _published(scheme: SchemeInfo, backbone: Resolved[Any], dataset: Resolved[Any]) -> Settings:
    """The scheme's settings for this backbone, and above them those for this backbone and dataset."""
    model, prompts = (thing.info.name.rstrip(":") for thing in (backbone, dataset))
    return merged(scheme.settings.get(model, {}), scheme.settings.get(f"{model}/{prompts}", {}))


def _decoding(*layers: Mapping[str, Any]) -> Decoding:
    """Library default < backbone < scheme's published settings < user."""
    settings: Settings = {}
    for layer in layers:
        for given, other in (("steps", "tokens_per_step"), ("tokens_per_step", "steps")):
            if layer.get(given) is not None:
                settings.pop(other, None)  # two ways to say one thing: the upper layer's way counts
        settings = merged(settings, layer)
    return validated(Decoding, settings, "decoding")


def _preferred(names: Iterable[str], registry: Registry[Any]) -> str:
    installed = list(registry)
    for name in names:
        if name in installed:
            return name
    raise ConfigError(f"no default {registry.kind} is installed", why=f"installed: {', '.join(installed) or 'none'}")


def _refuse_twice(kind: str, labels: Iterable[str]) -> None:
    seen: set[str] = set()
    for label in labels:
        if label in seen:
            raise ConfigError(
                f"{kind} {label!r} is chosen twice", hint="remove one of them, or give them different settings"
            )
        seen.add(label)
