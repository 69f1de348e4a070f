"""Answer every prompt under the scheme.

Generations are appended in the order in which they finish, so that none is lost or held back. That order depends on
the batch; when all are there the file is put into prompt order, once. What a sample says and costs depends on the
sample alone, so the finished file has the same bytes at any batch size and after any interruption.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

from wmbench.bench.draws import next_draws
from wmbench.bench.filters import filter_texts
from wmbench.bench.jsonl import Record
from wmbench.bench.stages.base import Run, Tally, finished_items
from wmbench.bench.workers import Executor
from wmbench.observers import TraceObserver
from wmbench.run_hooks import RunHooks
from wmbench.types import Generation, Sample

if TYPE_CHECKING:
    from wmbench.bench.build import Builder
    from wmbench.bench.plan import RunPlan
    from wmbench.keys import SecretKey


class DecodeStage:
    name = "decode"

    def is_complete(self, run: Run) -> bool:
        finished = [record["id"] for record in self._finished(run)]
        return finished == in_order(run, finished) and not self._missing(run)

    def work(self, run: Run) -> None:
        finished = len(self._finished(run))
        if finished and self._missing(run):
            run.note(f"resuming: {finished} of {run.wanted} samples are already there")
        begun = time.perf_counter()
        while missing := self._missing(run):
            self._decode(run, missing, begun)
        records = {record["id"]: record for record in self._finished(run)}
        if list(records) != in_order(run, records):
            run.store.samples.rewrite(records[i] for i in in_order(run, records))

    def tallies(self, run: Run) -> dict[str, Tally]:
        finished = len(self._finished(run))
        return {"samples": Tally(finished + len(self._missing(run)), finished)}

    def _finished(self, run: Run) -> list[Record]:
        return finished_items(run.store.samples, (sample.id for sample in run.answers))

    def _missing(self, run: Run) -> list[Sample]:
        """What is to be answered now; with retries or topping up there may be more to come afterwards."""
        config, records = run.plan.config, {record["id"]: record for record in self._finished(run)}
        reasons: dict[str, str | None] = dict.fromkeys(records)
        if config.retries or config.top_up:
            texts = [records[i]["text"] for i in in_order(run, records)]
            verdicts = filter_texts(texts, run.backbone.codec, run.plan.filters)
            reasons = {i: v.reason for i, v in zip(in_order(run, records), verdicts, strict=True)}
        wanted = run.wanted if config.top_up else None
        return next_draws(run.samples, reasons, wanted=wanted, retries=config.retries)

    def _decode(self, run: Run, missing: list[Sample], begun: float) -> None:
        """`begun`: one clock for all rounds of an invocation (`seconds_per_token`)."""
        plan = run.plan
        with ExitStack() as stack:
            observers = list(run.observers)
            if run.trace:
                observers.append(stack.enter_context(TraceObserver(run.store.trace_path)))
            if run.progress:
                total = len(missing) * plan.decoding.max_new_tokens
                observers.append(stack.enter_context(run.progress.watching(plan.title, total)))
            # Observers see the steps of this process only, so a traced run is decoded here.
            records: Iterable[Record]
            if run.executor is None or run.trace or len(missing) == 1:
                records = map(sample_record, answered(plan, run.builder, run.key, missing, observers))
            else:
                records = self._shared(run, missing, run.executor)
            for record in records:
                run.store.samples.append(record)
                seconds, tokens = round(time.perf_counter() - begun, 6), len(record["token_ids"])
                run.store.timings.append({"event": "sample", "id": record["id"], "at": seconds, "tokens": tokens})

    def _shared(self, run: Run, missing: list[Sample], executor: Executor) -> Iterator[Record]:
        """Batches in the order in which the workers finish them."""
        ids, size = [sample.id for sample in missing], run.plan.config.batch_size
        chunks = [ids[at : at + size] for at in range(0, len(ids), size)]
        for _, records in executor.map(decode_batch, run, chunks):
            if run.progress:
                run.progress.advance(sum(len(record["token_ids"]) for record in records))
            yield from records


def decode_batch(run: Run, ids: list[str]) -> list[Record]:
    """A task for workers."""
    samples = {sample.id: sample for sample in run.answers}
    return [sample_record(g) for g in answered(run.plan, run.builder, run.key, [samples[i] for i in ids])]


def answered(
    plan: RunPlan, builder: Builder, key: SecretKey | None, samples: Sequence[Sample], observers: Iterable[object] = ()
) -> Iterator[Generation]:
    """Answers under the plan's scheme, as they finish."""
    from wmbench.runtime.loop import decode, make_engine

    backbone = builder.backbone(plan.backbone)
    scheme = builder.scheme(plan, backbone.codec, key)
    hooks = RunHooks(scheme, plan.scheme.entry.plugin, codec=backbone.codec, observers=observers)
    hooks.require("decode_step", "generate")
    return decode(
        samples,
        make_engine(backbone, plan.decoding),
        plan.decoding,
        hooks.decode_step,
        hooks.begin,
        seed=plan.config.seed,
        batch_size=plan.config.batch_size,
    )


def in_order(run: Run, ids: Collection[str]) -> list[str]:
    """The same ids in the order of the prompts."""
    known = frozenset(ids)
    return [sample.id for sample in run.answers if sample.id in known]


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
