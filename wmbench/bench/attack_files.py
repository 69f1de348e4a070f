"""Attacks texts into a file, batch by batch: shared by the samples of a run and by null texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from wmbench.bench.attacking import Attacker, AttackServices
from wmbench.bench.jsonl import JsonlFile, Record
from wmbench.disk import make_folder
from wmbench.errors import PluginError
from wmbench.types import Attacked, AttackInput, BackboneEntry, TextCodec

if TYPE_CHECKING:
    from wmbench.bench.attack_plan import AttackChain
    from wmbench.bench.build import Builder
    from wmbench.bench.resolved import Resolved

AttackBatch = Callable[[Sequence[AttackInput]], Sequence[Attacked]]
TEXTS_PER_CALL: Final = 16
"""Lost at most when the process is killed; enough for an attack that runs a model in batches."""


def attack_batch(
    attack: AttackChain,
    builder: Builder,
    backbone: Resolved[BackboneEntry],
    codec: TextCodec,
    seed: int,
    observers: Iterable[object] = (),
) -> AttackBatch:
    """An attack with its settings as a function of texts; `backbone` is the run's own."""
    attacker = Attacker(attack, builder, observers)
    context = AttackServices(builder, backbone, attack.limits).context(seed, codec)
    return lambda batch: attacker(batch, context)


def attack_into(
    file: JsonlFile, items: Sequence[AttackInput], attack: AttackBatch, advance: Callable[[int], None] = lambda _: None
) -> None:
    """Append one record per text; one that failed says why and is done, too. `advance` is told how many are."""
    make_folder(file.path.parent)
    worked = has_worked(file)
    for batch in batches(items):
        for record in attacked_records(batch, attack, worked):
            file.append(record)
            worked = worked or record["text"] is not None
        advance(len(batch))


def batches(items: Sequence[AttackInput]) -> list[Sequence[AttackInput]]:
    return [items[at : at + TEXTS_PER_CALL] for at in range(0, len(items), TEXTS_PER_CALL)]


def has_worked(file: JsonlFile) -> bool:
    """Whether the attack has changed any text so far."""
    return any(record["text"] is not None for record in file.read())


def attacked_records(batch: Sequence[AttackInput], attack: AttackBatch, worked: bool) -> list[Record]:
    return [
        {"id": item.id, "text": result.text, "error": result.error, "details": dict(result.details)}
        for item, result in zip(batch, isolated(batch, attack, worked), strict=True)
    ]


def isolated(batch: Sequence[AttackInput], attack: AttackBatch, worked: bool) -> Sequence[Attacked]:
    """An attack that raises fails the texts that it raises on. If it has never worked and raises on all of them, it is
    the attack's own fault."""
    try:
        return attack(batch)
    except PluginError:
        results = [_alone(item, attack) for item in batch]
        if not worked and all(isinstance(result, PluginError) for result in results):
            raise
        return [_failed(result) if isinstance(result, PluginError) else result for result in results]


def _alone(item: AttackInput, attack: AttackBatch) -> Attacked | PluginError:
    try:
        return attack([item])[0]
    except PluginError as error:
        return error


def _failed(error: PluginError) -> Attacked:
    return Attacked(None, error=f"{error.message}: {error.why}")
