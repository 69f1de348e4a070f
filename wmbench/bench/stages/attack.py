"""Attack every kept sample in every chosen way, one file per attack. An item that fails says why."""

from __future__ import annotations

import time
from collections.abc import Iterable

from wmbench.bench.attack_files import (
    AttackBatch,
    attack_batch,
    attack_into,
    attacked_records,
    batches,
    has_worked,
)
from wmbench.bench.attack_plan import AttackChain
from wmbench.bench.jsonl import Record
from wmbench.bench.stages.base import Run, Tally, finished_items
from wmbench.bench.textset import kept_samples
from wmbench.bench.workers import in_order
from wmbench.disk import make_folder
from wmbench.observers import watched
from wmbench.types import AttackInput


class AttackStage:
    name = "attack"

    def is_complete(self, run: Run) -> bool:
        return all(not self._missing(run, attack) for attack in run.plan.attacks)

    def work(self, run: Run) -> None:
        for attack in run.plan.attacks:
            if missing := self._missing(run, attack):
                self._attack(run, attack, missing)

    def tallies(self, run: Run) -> dict[str, Tally]:
        counts = {}
        kept = {sample["id"] for sample in kept_samples(run)}
        for attack in run.plan.attacks:
            records = [record for record in self._finished(run, attack) if record["id"] in kept]
            failed = sum(record["error"] is not None for record in records)
            counts[f"attacked/{attack.label}"] = Tally(len(kept), len(records), failed)
        return counts

    def _finished(self, run: Run, attack: AttackChain) -> list[Record]:
        """Also those of samples that the present filters drop: other filters may have kept them."""
        return finished_items(run.store.attacked(attack.label), (sample.id for sample in run.answers))

    def _missing(self, run: Run, attack: AttackChain) -> list[AttackInput]:
        again = run.plan.config.retry_failed
        done = {record["id"] for record in self._finished(run, attack) if not (again and record["error"])}
        return [AttackInput(s["id"], s["text"], s["prompt"]) for s in kept_samples(run) if s["id"] not in done]

    def _attack(self, run: Run, attack: AttackChain, missing: list[AttackInput]) -> None:
        begun = time.perf_counter()
        file, config = run.store.attacked(attack.label), run.plan.config
        if config.retry_failed and any(record["error"] for record in file.read()):
            file.rewrite(record for record in file.read() if not record["error"])
        with watched(run.progress, f"{attack.label}, {run.plan.title}", len(missing)) as advance:
            if run.executor is None:
                attack_into(file, missing, _batch(run, attack, run.observers), advance)
            else:
                make_folder(file.path.parent)
                worked, chunks = has_worked(file), batches(missing)
                shared = run.executor.map(attack_texts, run, [(attack.label, list(batch)) for batch in chunks])
                for batch, found in zip(chunks, in_order(shared), strict=True):
                    # Whose fault it is when every text fails depends on the texts before, which no worker has seen.
                    is_doubtful = not worked and all(record["text"] is None for record in found)
                    records = attacked_records(batch, _batch(run, attack), worked) if is_doubtful else found
                    for record in records:
                        file.append(record)
                    worked = worked or not is_doubtful
                    advance(len(records))
        seconds = round(time.perf_counter() - begun, 6)
        run.store.timings.append({"event": "attack", "attack": attack.label, "texts": len(missing), "seconds": seconds})


def attack_texts(run: Run, payload: tuple[str, list[AttackInput]]) -> list[Record]:
    """A task for workers. Texts that the attack raises on have failed."""
    label, batch = payload
    attack = next(attack for attack in run.plan.attacks if attack.label == label)
    return attacked_records(batch, _batch(run, attack), worked=True)


def _batch(run: Run, attack: AttackChain, observers: Iterable[object] = ()) -> AttackBatch:
    plan = run.plan
    return attack_batch(attack, run.builder, plan.backbone, run.backbone.codec, plan.config.seed, observers)
