"""How surprising every kept text is to a judge (`quality.jsonl`). Without a judge the stage has nothing to do."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from wmbench.bench.derived import digest
from wmbench.bench.draws import prompt_id
from wmbench.bench.jsonl import JsonlFile, encode_line
from wmbench.bench.stages.base import Run, Tally
from wmbench.bench.textset import kept_samples
from wmbench.quality import DEFAULT_JUDGE, FoundJudge, find_judge

if TYPE_CHECKING:
    from wmbench.quality import TextJudge

FILE = "quality.jsonl"


class QualityStage:
    name = "quality"

    def is_complete(self, run: Run) -> bool:
        found = judge_of(run)
        return isinstance(found, str) or run.store.derived.is_current(FILE, self._inputs(run, found))

    def work(self, run: Run) -> None:
        found = judge_of(run)
        if isinstance(found, str):
            return
        kept = kept_samples(run)
        values: list[float] = []
        if kept:
            prompts, texts = [sample["prompt"] for sample in kept], [sample["text"] for sample in kept]
            values = _loaded(found).log_perplexity(prompts, texts).tolist()
        lines = [
            encode_line({"id": sample["id"], "log_perplexity": None if math.isnan(value) else value})
            for sample, value in zip(kept, values, strict=True)
        ]
        run.store.derived.write(FILE, self._inputs(run, found), b"".join(lines))

    def tallies(self, run: Run) -> dict[str, Tally]:
        return {}

    def _inputs(self, run: Run, found: FoundJudge) -> str:
        texts = [[sample["id"], sample["prompt"], sample["text"]] for sample in kept_samples(run)]
        return digest([found.name, found.identity, texts])


def judge_of(run: Run) -> FoundJudge | str:
    """The run's judge, or why it has none."""
    return find_judge(run.plan.config.judge or DEFAULT_JUDGE, run.backbone.codec)


def read_quality(run: Run) -> dict[str, float]:
    """Log-perplexity by prompt; empty when nothing was judged."""
    if isinstance(judge_of(run), str):
        return {}
    records = JsonlFile(run.store.folder / FILE).read()
    known = (record for record in records if record["log_perplexity"] is not None)
    return {prompt_id(record["id"]): record["log_perplexity"] for record in known}


_JUDGES: dict[str, TextJudge] = {}


def _loaded(found: FoundJudge) -> TextJudge:
    """Once per process."""
    name = json.dumps([found.name, found.identity])
    if name not in _JUDGES:
        _JUDGES[name] = found.load()
    return _JUDGES[name]
