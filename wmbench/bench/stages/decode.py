"""Answer every prompt under the scheme.

Generations are appended in the order in which they finish, so that none is lost or held back. That order depends on
the batch; when all are there the file is put into prompt order, once. What a sample says and costs depends on the
sample alone, so the finished file has the same bytes at any batch size and after any interruption.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict

from wmbench.bench.jsonl import Record
from wmbench.bench.stages.base import Run, Tally, finished_items
from wmbench.observers import TraceObserver
from wmbench.run_hooks import RunHooks
from wmbench.types import Generation, Sample


class DecodeStage:
    name = "decode"

    def is_complete(self, run: Run) -> bool:
        return [record["id"] for record in self._finished(run)] == [sample.id for sample in run.samples]

    def work(self, run: Run) -> None:
        finished = {record["id"] for record in self._finished(run)}
        missing = [sample for sample in run.samples if sample.id not in finished]
        if finished and missing:
            run.note(f"resuming: {len(finished)} of {len(run.samples)} samples are already there")
        if missing:
            self._decode(run, missing)
        position = {sample.id: index for index, sample in enumerate(run.samples)}
        records = self._finished(run)
        in_order = sorted(records, key=lambda record: position[record["id"]])
        if in_order != records:
            run.store.samples.rewrite(in_order)

    def tallies(self, run: Run) -> dict[str, Tally]:
        return {"samples": Tally(len(run.samples), len(self._finished(run)))}

    def _finished(self, run: Run) -> list[Record]:
        return finished_items(run.store.samples, (sample.id for sample in run.samples))

    def _decode(self, run: Run, missing: list[Sample]) -> None:
        from wmbench.runtime.loop import decode, make_engine

        plan, store = run.plan, run.store
        scheme = run.builder.scheme(plan, run.backbone.codec, run.key)
        with ExitStack() as stack:
            observers = list(run.observers)
            if run.trace:
                observers.append(stack.enter_context(TraceObserver(store.trace_path)))
            if run.progress:
                total = len(missing) * plan.decoding.max_new_tokens
                observers.append(stack.enter_context(run.progress.watching(plan.title, total)))
            hooks = RunHooks(scheme, plan.scheme.entry.plugin, codec=run.backbone.codec, observers=observers)
            hooks.require("decode_step", "generate")
            begun = time.perf_counter()
            for generation in decode(
                missing,
                make_engine(run.backbone, plan.decoding),
                plan.decoding,
                hooks.decode_step,
                hooks.begin,
                seed=plan.config.seed,
                batch_size=plan.config.batch_size,
            ):
                store.samples.append(sample_record(generation))
                seconds = round(time.perf_counter() - begun, 6)
                tokens = len(generation.token_ids)
                store.timings.append({"event": "sample", "id": generation.sample.id, "at": seconds, "tokens": tokens})


def sample_record(generation: Generation) -> Record:
    sample = generation.sample
    return {
        "id": sample.id,
        "prompt": sample.prompt,
        "text": generation.text,
        "token_ids": list(generation.token_ids),
        "cost": asdict(generation.cost),
        "meta": dict(sample.meta),
    }
