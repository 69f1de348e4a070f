"""What does each scheme cost, compared with clean decoding? `python -m benchmarks.scheme_cost [--backbone mini]`

The schemes, each decoded as in the paper on LLaDA-8B (blocks of 25), answer the same prompts in this run; every
round begins with clean decoding under the same decoding settings, and the best round of each counts. Beside the time
stand the counted operations (canvas positions through the trunk, rows through the LM head) and the ratio they predict:
what clean text costs per position, per head row and per token apart from both, times the scheme's counts.

`--schemes block_best_of_k pmark semstamp` are the block-decoded ones: 16 completions of every block and more, so they
take longest. The smallest run that shows a line for every default scheme: `--tokens 25 --prompts 1 --rounds 1
--batch-sizes 1`."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from wmbench.bench.build import Builder
from wmbench.bench.plan import RunPlan, resolve_runs
from wmbench.config import Choice, load_config
from wmbench.host import Host
from wmbench.published import blocks
from wmbench.run_hooks import RunHooks
from wmbench.runtime.backbone import Backbone, Prefix, Windows
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.testing import toy_key
from wmbench.types import Sample, SchemeInfo

GOALS = {"dlm_kgw": 1.15, "patternmark": 1.05, "umr": 1.2, "dgmark": 3.5}
"""Ratios to reach at batch 1. DenMark has a benchmark of its own, denmark_cost."""
CLEAN = "none"


class Timed:
    """A backbone with a clock on its trunk and its head."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self.trunk = self.head = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backbone, name)

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        began = time.perf_counter()
        try:
            return self._backbone.hidden(windows)
        finally:
            self.trunk += time.perf_counter() - began

    def logits(self, states: Tensor) -> Tensor:
        began = time.perf_counter()
        try:
            return self._backbone.logits(states)
        finally:
            self.head += time.perf_counter() - began


@dataclass(frozen=True)
class Spent:
    """One decoding of all prompts."""

    seconds: float
    trunk_seconds: float
    head_seconds: float
    tokens: int
    positions: int
    head_rows: int

    def predicted(self, clean: Spent) -> float:
        """Seconds that these counts would take at the unit costs of clean decoding."""
        rest = clean.seconds - clean.trunk_seconds - clean.head_seconds
        return (
            clean.trunk_seconds * self.positions / clean.positions
            + clean.head_seconds * self.head_rows / clean.head_rows
            + rest * self.tokens / clean.tokens
        )


def paper_decoding(info: SchemeInfo, tokens: int) -> Decoding:
    """As the paper decodes LLaDA-8B under this scheme: the lab's own blocks are too short for a beam of 10."""
    published = info.settings.get("llada-8b", {}).get("decoding", blocks())
    return Decoding(**{**published, "max_new_tokens": tokens})


def spend(plan: RunPlan, builder: Builder, samples: Sequence[Sample], batch_size: int) -> Spent:
    backbone = Timed(builder.backbone(plan.backbone))
    scheme = builder.scheme(plan, backbone.codec, toy_key("cost"))
    hooks = RunHooks(scheme, plan.scheme.entry.plugin, codec=backbone.codec)
    engine = make_engine(backbone, plan.decoding)  # type: ignore[arg-type]
    began = time.perf_counter()
    done = list(decode(samples, engine, plan.decoding, hooks.decode_step, hooks.begin, batch_size=batch_size))
    seconds = time.perf_counter() - began
    tokens = sum(len(generation.token_ids) for generation in done)
    return Spent(
        seconds, backbone.trunk, backbone.head, tokens, engine.counters.forward_tokens, engine.counters.head_rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backbone", default="mini")
    parser.add_argument("--schemes", nargs="+", help=f"default: {' '.join(GOALS)}")
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--tokens", type=int, default=75, help="per answer")
    parser.add_argument("--prompts", type=int, default=2, help="answers at batch 1; at larger batches one full batch")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    host = Host.discover()
    config = load_config(
        options={
            "schemes": arguments.schemes or list(GOALS),
            "backbone": arguments.backbone,
            "attacks": [],
            "samples": max(arguments.prompts, *arguments.batch_sizes),
        }
    )
    plans = [
        replace(plan, decoding=paper_decoding(plan.scheme.info, arguments.tokens))
        for plan in resolve_runs(config, host)
    ]
    clean_plan = resolve_runs(config.model_copy(update={"schemes": [Choice(name=CLEAN)]}), host)[0]
    builder = Builder(host)
    samples = builder.prompts(plans[0])
    print(f"{'scheme':16} {'batch':>5} {'s/token':>9} {'ratio':>6} {'predicted':>9} {'goal':>5}  per token (clean)")
    for batch_size in arguments.batch_sizes:
        work = samples[: arguments.prompts if batch_size == 1 else batch_size]
        for plan in plans:
            rounds = []
            for _ in range(arguments.rounds):
                clean = spend(replace(clean_plan, decoding=plan.decoding), builder, work, batch_size)
                rounds.append((clean, spend(plan, builder, work, batch_size)))
            clean = min((pair[0] for pair in rounds), key=lambda spent: spent.seconds)
            marked = min((pair[1] for pair in rounds), key=lambda spent: spent.seconds)
            ratio = marked.seconds / clean.seconds * clean.tokens / marked.tokens
            predicted = marked.predicted(clean) / clean.seconds * clean.tokens / marked.tokens
            goal = GOALS.get(plan.scheme.info.name) if batch_size == 1 else None
            counted = ", ".join(
                f"{count(marked) / marked.tokens:.1f} ({count(clean) / clean.tokens:.1f}) {name}"
                for name, count in (("positions", lambda s: s.positions), ("head rows", lambda s: s.head_rows))
            )
            print(
                f"{plan.scheme.info.name:16} {batch_size:5} {marked.seconds / marked.tokens:9.4f} {ratio:6.2f} "
                f"{predicted:9.2f} {goal or '':>5}  {counted}",
                flush=True,
            )
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {torch.get_num_threads()} thread(s)")


if __name__ == "__main__":
    main()
