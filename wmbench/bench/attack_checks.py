"""Attacks are built before the first text is decoded: a missing API key or model must not show up after an hour.

An attack checks what it needs when it is built. One that builds on other parts names them in its configuration, by a
property `uses`: under `attacks`, `backbones`, `encoders` and `nulls` the names, each with the settings it gets.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from wmbench.bench.attack_plan import AttackChain, resolve_attack
from wmbench.bench.attacking import Attacker
from wmbench.bench.plan import resolve_backbone, resolve_dataset
from wmbench.bench.textset import kept_samples
from wmbench.config import Choice
from wmbench.errors import IntegrityError, WmbenchError
from wmbench.settings import Settings

if TYPE_CHECKING:
    from wmbench.bench.build import Builder
    from wmbench.bench.stages.base import Run

Uses = Mapping[str, Mapping[str, Settings]]


def workable(attacks: Sequence[AttackChain], builder: Builder) -> tuple[AttackChain, ...]:
    """Without those that `all` brought and that cannot work here; a note says which, and why."""
    left_out: dict[str, list[str]] = {}
    kept = []
    for attack in attacks:
        try:
            if attack.is_optional:
                with _hub_closed():
                    require_attack(attack, builder, set())
        except WmbenchError as error:
            left_out.setdefault(error.message, []).append(attack.label)
        else:
            kept.append(attack)
    for why, labels in left_out.items():
        builder.note(f"left out of `all`: {', '.join(labels)} ({why})")
    return tuple(kept)


@contextmanager
def _hub_closed() -> Iterator[None]:
    """Who says `all` did not ask for models of 45 GB: they take part if they are on this machine."""
    try:
        from huggingface_hub import constants  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        yield
        return
    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def require_attacks(runs: Sequence[Run]) -> None:
    """Refuse a comparison with an attack that still has work to do and cannot work. A dry run only says so."""
    checked: set[str] = set()
    for run in runs:
        for attack in run.plan.attacks:
            if attack.label in checked or _is_done(run, attack):
                continue
            try:
                require_attack(attack, run.builder, checked)
            except WmbenchError as error:
                if not run.builder.writes_nothing:
                    raise
                run.note(f"warning: attack {attack.label} cannot run: {error}")


def require_attack(attack: AttackChain, builder: Builder, checked: set[str]) -> None:
    """Build an attack and look up what it builds on; an error says what is missing."""
    if attack.label in checked:
        return
    checked.add(attack.label)
    Attacker(attack, builder)
    for step in attack.steps:
        uses: Uses = getattr(step.settings, "uses", {})
        for name, settings in uses.get("attacks", {}).items():
            require_attack(resolve_attack(Choice(name=name, params=settings), builder.host), builder, checked)
        for name in uses.get("backbones", {}):
            resolve_backbone(Choice(name=name), builder.host)
        for name in uses.get("encoders", {}):
            builder.host.encoders.resolve(name)
        for name in uses.get("nulls", {}):
            next(builder.null_texts(resolve_dataset(name, builder.host, "nulls"), 1), None)  # its file may be missing


def _is_done(run: Run, attack: AttackChain) -> bool:
    """Judged by the files, without repairing any: the folder may belong to another process at this moment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever owns the folder reports a torn line
        try:
            config = run.plan.config
            status = (run.store.read_run() or {}).get("status")
            if config.attacked_nulls and (config.retry_failed or status not in ("success", "partial")):
                return False
            records = run.store.attacked(attack.label).read()
            done = {record["id"] for record in records if not (config.retry_failed and record["error"])}
            has_samples = len(run.store.samples.read()) >= run.wanted
            return has_samples and all(sample["id"] in done for sample in kept_samples(run))
        except IntegrityError:
            return True  # the run itself will say so
