"""What attacks will cost, by what they declare.

Local ones are free. One that asks the run's own model is tried on a few null texts. One that brings a model of its
own, or asks an endpoint, is named and not estimated: finding out would cost as much as doing it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wmbench.bench.attack_plan import AttackChain, resolve_attack
from wmbench.bench.attacking import Attacker, AttackServices
from wmbench.bench.deadline import Deadline, TimeIsUp
from wmbench.config import Choice
from wmbench.errors import WmbenchError
from wmbench.types import AttackInput

if TYPE_CHECKING:
    from wmbench.bench.stages.base import Run
    from wmbench.host import Host

_PROBES: Final = 2
"""Null texts that an attack is tried on, together."""
_SECONDS: Final = 12.0
"""For all attacks of a command together."""
_LEAST_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class AttackEstimate:
    """Of all attacks on the texts of one run."""

    texts: int
    """Attacks on texts that were counted: samples, and null texts where they are attacked too."""
    minutes: float
    is_at_least: bool
    """An attack was cut off while it was tried, so that it takes longer than that."""
    tried: tuple[str, ...]
    free: int
    """Local attacks, which take next to no time."""
    unknown: tuple[str, ...]
    """Attacks that bring a model of their own or ask an endpoint: not in it."""

    def as_dict(self) -> dict[str, Any]:
        return {
            "texts": self.texts,
            "minutes": round(self.minutes, 3),
            "is_at_least": self.is_at_least,
            "tried": list(self.tried),
            "free": self.free,
            "unknown": list(self.unknown),
        }


def summed(found: Sequence[AttackEstimate]) -> AttackEstimate:
    """Of several runs together."""
    return AttackEstimate(
        sum(one.texts for one in found),
        sum(one.minutes for one in found),
        any(one.is_at_least for one in found),
        _names(name for one in found for name in one.tried),
        max((one.free for one in found), default=0),
        _names(name for one in found for name in one.unknown),
    )


def attack_estimates(runs: Sequence[Run]) -> list[AttackEstimate]:
    """One per run. An attack is tried once for all runs of a model; null texts are attacked once for all of them."""
    known: dict[tuple[str, str], _TextCost | None] = {}
    attacked_nulls: set[tuple[str, str]] = set()
    kinds = {(run.plan.backbone.label, a.label) for run in runs for a in run.plan.attacks if a.cost != "local"}
    seconds = max(_LEAST_SECONDS, _SECONDS / max(1, len(kinds)))
    found = []
    for run in runs:
        texts, total, is_at_least = 0, 0.0, False
        tried, unknown = [], []
        for attack in run.plan.attacks:
            kind = run.plan.backbone.label, attack.label
            left = _samples_left(run, attack)
            if run.detector is not None and kind not in attacked_nulls:
                attacked_nulls.add(kind)
                left += run.plan.config.attacked_nulls * len(run.nulls) if left else 0
            if attack.cost == "local" or not left:
                continue
            if kind not in known:
                known[kind] = _text_cost(run, attack, seconds) if _asks_the_run_s_model(attack, run) else None
            cost = known[kind]
            if cost is None:
                unknown.append(attack.label)
                continue
            texts, total, is_at_least = texts + left, total + left * cost.seconds, is_at_least or cost.is_at_least
            tried.append(attack.label)
        free = sum(attack.cost == "local" for attack in run.plan.attacks)
        found.append(AttackEstimate(texts, total / 60, is_at_least, tuple(tried), free, tuple(unknown)))
    return found


def _samples_left(run: Run, attack: AttackChain) -> int:
    """Answers that are not attacked yet; as many as were asked for, since none is decoded or filtered yet."""
    return max(0, run.wanted - len(run.store.attacked(attack.label).read()))


def _asks_the_run_s_model(attack: AttackChain, run: Run) -> bool:
    """Whether all that it loads is loaded already. An attack that has its models from the host names them (`uses`)."""
    return attack.cost != "api" and all(_has_its_models(step, run) for step in _steps(attack, run.builder.host))


def _steps(attack: AttackChain, host: Host) -> Iterable[Any]:
    """With the steps of the attacks that it builds on."""
    for step in attack.steps:
        yield step
        for name, settings in getattr(step.settings, "uses", {}).get("attacks", {}).items():
            yield from _steps(resolve_attack(Choice(name=name, params=dict(settings)), host), host)


def _has_its_models(step: Any, run: Run) -> bool:
    if step.info.cost == "local":
        return True
    uses = getattr(step.settings, "uses", None)
    return uses is not None and set(uses.get("backbones", ())) <= {run.plan.backbone.label}


@dataclass(frozen=True, slots=True)
class _TextCost:
    seconds: float
    is_at_least: bool


def _text_cost(run: Run, attack: AttackChain, seconds: float) -> _TextCost | None:
    """Try it on a few null texts that are as long as the answers; nothing is written. None: it cannot be tried."""
    plan, codec = run.plan, run.backbone.codec
    nulls = islice(run.builder.null_texts(run.nulls[0].source, _PROBES), _PROBES)
    ids = codec.encode_batch([null.text for null in nulls])
    probes = [AttackInput(f"probe {n}", codec.decode(i[: plan.decoding.max_new_tokens])) for n, i in enumerate(ids)]
    context = AttackServices(run.builder, plan.backbone, attack.limits).context(plan.config.seed, codec)
    load = context.load_backbone
    assert load is not None
    context = replace(context, load_backbone=lambda name: Deadline(load(name), seconds))
    is_at_least = True
    try:
        attacker = Attacker(attack, run.builder)
        begun = time.perf_counter()
        with suppress(TimeIsUp):
            attacker(probes, context)
            is_at_least = False
    except WmbenchError:
        return None
    return _TextCost((time.perf_counter() - begun) / max(1, len(probes)), is_at_least)


def _names(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
