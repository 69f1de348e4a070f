"""Which samples count. The same rule for clean and marked texts; a dropped sample keeps its reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

from wmbench.bench.derived import digest
from wmbench.bench.draws import prompt_id
from wmbench.bench.filters import filter_texts
from wmbench.bench.jsonl import encode_line
from wmbench.bench.stages.base import Run, Tally

FILE = "filter.jsonl"


class FilterStage:
    name = "filter"

    def is_complete(self, run: Run) -> bool:
        return run.store.derived.is_current(FILE, self._inputs(run))

    def work(self, run: Run) -> None:
        samples = run.store.samples.read()
        verdicts = filter_texts([sample["text"] for sample in samples], run.backbone.codec, run.plan.filters)
        records = [
            {"id": sample["id"], "kept": verdict.kept, **asdict(verdict)}
            for sample, verdict in zip(samples, verdicts, strict=True)
        ]
        answered: set[str] = set()
        for record in records:
            prompt = prompt_id(record["id"])
            if record["kept"] and (prompt in answered or len(answered) == run.wanted):
                record.update(kept=False, reason="surplus")  # drawn when stricter filters kept fewer
            elif record["kept"]:
                answered.add(prompt)
        run.store.derived.write(FILE, self._inputs(run), b"".join(map(encode_line, records)))
        if run.plan.config.top_up and len(answered) < run.wanted:
            run.note(f"warning: kept only {len(answered)} of {run.wanted} texts: the prompts are used up")
        if dropped := drop_counts(run):
            run.note(f"dropped {sum(dropped.values())} of {len(samples)} samples: {_listed(dropped)}")

    def tallies(self, run: Run) -> dict[str, Tally]:
        verdicts = run.store.filter.read()
        return {"filter": Tally(len(run.store.samples.read()), len(verdicts))}

    def _inputs(self, run: Run) -> str:
        texts = [[sample["id"], sample["text"]] for sample in run.store.samples.read(repair=True)]
        return digest([run.plan.filters.model_dump(mode="json"), run.backbone.codec.fingerprint, texts, run.wanted])


def drop_counts(run: Run) -> dict[str, int]:
    """How many samples were dropped, by reason."""
    reasons = Counter(verdict["reason"] for verdict in run.store.filter.read() if not verdict["kept"])
    return dict(sorted(reasons.items()))


def _listed(dropped: dict[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in dropped.items())
