"""Runs attacks: one after the other on the same texts, and each of them by name for attacks that build on others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from wmbench.bench.attack_plan import NO_LIMITS, AttackChain, resolve_attack
from wmbench.config import Choice
from wmbench.run_hooks import RunHooks
from wmbench.types import AttackContext, Attacked, AttackFunction, AttackInput, BackboneEntry, NullText, TextCodec

if TYPE_CHECKING:
    from wmbench.bench.build import Builder
    from wmbench.bench.resolved import Resolved
    from wmbench.runtime.backbone import Backbone


class Attacker:
    """The attacks of a chain, built."""

    def __init__(self, chain: AttackChain, builder: Builder, observers: Iterable[object] = ()) -> None:
        self._labels = [step.label for step in chain.steps]
        self._hooks = [RunHooks(builder.attack(step), step.entry.plugin, observers=observers) for step in chain.steps]

    def __call__(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        """A text that fails at one step has failed; the steps behind it do not see it."""
        if len(self._hooks) == 1:
            return list(self._hooks[0].attack(texts, context))
        results = [Attacked(item.text) for item in texts]
        changed: set[int] = set()
        for number, (label, hooks) in enumerate(zip(self._labels, self._hooks, strict=True)):
            places = [i for i, result in enumerate(results) if result.text is not None]
            inputs = [_input(texts[i], results[i], number) for i in places]
            for i, result in zip(places, hooks.attack(inputs, context) if inputs else [], strict=True):
                steps = [*results[i].details.get("steps", ()), {"attack": label, **result.details}]
                error = None if result.error is None else f"{label}: {result.error}"
                changed |= {i} if result.text != results[i].text else set()
                results[i] = Attacked(result.text, error, {"steps": steps})
        for i in changed:
            if results[i].text == texts[i].text:
                error = "the attack changed nothing: its steps undo each other"
                results[i] = replace(results[i], text=None, error=error)
        return results


def _input(item: AttackInput, result: Attacked, step: int) -> AttackInput:
    """Later steps have an id of their own: else a swap after a swap would draw the same places and undo it."""
    assert result.text is not None
    return replace(item, text=result.text, id=f"{item.id}|{step}" if step else item.id)


class AttackServices:
    """What attacks may ask for. Other attacks and null texts are loaded once."""

    def __init__(
        self, builder: Builder, backbone: Resolved[BackboneEntry], limits: Mapping[str, Any] = NO_LIMITS
    ) -> None:
        self._builder = builder
        self._backbone = backbone
        self._limits = limits
        self._attackers: dict[str, Attacker] = {}

    def context(self, seed: int, codec: TextCodec) -> AttackContext:
        return AttackContext(
            seed, codec, self._builder.encoder, self._load_backbone, self._load_nulls, self._load_attack
        )

    def _load_backbone(self, name: str) -> Backbone:
        return self._builder.backbone_by_name(name) if name else self._builder.backbone(self._backbone)

    def _load_nulls(self, name: str, limit: int) -> Iterable[NullText]:
        from wmbench.bench.plan import resolve_dataset

        return self._builder.null_texts(resolve_dataset(name, self._builder.host, "nulls"), limit)

    def _load_attack(self, name: str, settings: Mapping[str, Any]) -> AttackFunction:
        chain = resolve_attack(Choice(name=name, params=dict(settings)), self._builder.host, self._limits)
        if chain.label not in self._attackers:
            self._attackers[chain.label] = Attacker(chain, self._builder)
        return self._attackers[chain.label]
