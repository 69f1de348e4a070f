"""Stage 4: attack every kept sample in every chosen way, one file per attack. An item that fails says why."""

from __future__ import annotations

import time
from itertools import islice

from wmbench.bench.attack_plan import AttackChain
from wmbench.bench.attacking import Attacker, AttackServices
from wmbench.bench.disk import make_folder
from wmbench.bench.jsonl import Record
from wmbench.bench.stages.base import Run, Tally, finished_items
from wmbench.bench.textset import kept_samples
from wmbench.types import AttackInput

_TEXTS_PER_CALL = 16
"""Lost at most when the process is killed; enough for an attack that runs a model in batches."""


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
        for attack in run.plan.attacks:
            kept = {sample["id"] for sample in kept_samples(run)}
            records = [record for record in self._finished(run, attack) if record["id"] in kept]
            failed = sum(record["error"] is not None for record in records)
            counts[f"attacked/{attack.label}"] = Tally(len(kept), len(records), failed)
        return counts

    def _finished(self, run: Run, attack: AttackChain) -> list[Record]:
        """Also those of samples that the present filters drop: other filters may have kept them."""
        return finished_items(run.store.attacked(attack.label), (sample.id for sample in run.samples))

    def _missing(self, run: Run, attack: AttackChain) -> list[AttackInput]:
        done = {record["id"] for record in self._finished(run, attack)}
        return [AttackInput(s["id"], s["text"], s["prompt"]) for s in kept_samples(run) if s["id"] not in done]

    def _attack(self, run: Run, attack: AttackChain, missing: list[AttackInput]) -> None:
        file = run.store.attacked(attack.label)
        make_folder(file.path.parent)
        attacker = Attacker(attack, run.builder, run.observers)
        context = AttackServices(run.builder, run.backbone).context(run.plan.config.seed, run.backbone.codec)
        begun = time.perf_counter()
        waiting = iter(missing)
        while batch := list(islice(waiting, _TEXTS_PER_CALL)):
            for item, result in zip(batch, attacker(batch, context), strict=True):
                file.append(
                    {"id": item.id, "text": result.text, "error": result.error, "details": dict(result.details)}
                )
        seconds = round(time.perf_counter() - begun, 6)
        run.store.timings.append({"event": "attack", "attack": attack.label, "texts": len(missing), "seconds": seconds})
