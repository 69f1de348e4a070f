"""Attacks texts into a file, batch by batch: shared by the samples of a run and by null texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from wmbench.bench.disk import make_folder
from wmbench.bench.jsonl import JsonlFile
from wmbench.errors import PluginError
from wmbench.run_hooks import RunHooks
from wmbench.types import AttackContext, Attacked, AttackInput, TextCodec

if TYPE_CHECKING:
    from wmbench.bench.build import Builder
    from wmbench.bench.plan import Resolved
    from wmbench.types import AttackInfo

_TEXTS_PER_CALL: Final = 16
"""Lost at most when the process is killed; enough for an attack that runs a model in batches."""


@dataclass(frozen=True)
class Attacker:
    """One attack with its settings, ready to work on texts of one tokenizer."""

    hooks: RunHooks
    context: AttackContext

    @classmethod
    def of(
        cls, attack: Resolved[AttackInfo], builder: Builder, codec: TextCodec, seed: int, observers: Iterable[object]
    ) -> Attacker:
        hooks = RunHooks(builder.attack(attack), attack.entry.plugin, observers=observers)
        return cls(hooks, AttackContext(seed, codec, builder.encoder, builder.backbone_by_name))

    def attack_into(self, file: JsonlFile, items: Sequence[AttackInput]) -> None:
        """Append one record per text; one that failed says why and is done, too."""
        make_folder(file.path.parent)
        waiting = iter(items)
        while batch := list(islice(waiting, _TEXTS_PER_CALL)):
            for item, result in zip(batch, self._attacked(batch), strict=True):
                file.append(
                    {"id": item.id, "text": result.text, "error": result.error, "details": dict(result.details)}
                )

    def _attacked(self, batch: Sequence[AttackInput]) -> Sequence[Attacked]:
        """An attack that raises fails the texts that it raises on. If that is all of them, it is the attack's fault."""
        try:
            return self.hooks.attack(batch, self.context)
        except PluginError as error:
            single = [self._attacked_alone(item) for item in batch]
            if all(result.text is None for result in single):
                raise error
            return single

    def _attacked_alone(self, item: AttackInput) -> Attacked:
        try:
            return self.hooks.attack([item], self.context)[0]
        except PluginError as error:
            return Attacked(None, error=f"{error.message}: {error.why}")
