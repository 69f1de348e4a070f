"""The prompt list, so that a run folder can be read without its dataset."""

from __future__ import annotations

from wmbench.bench.jsonl import Record, encode_line
from wmbench.bench.stages.base import Run, Tally
from wmbench.disk import disk_errors


class PromptsStage:
    name = "prompts"

    def is_complete(self, run: Run) -> bool:
        """Compared as written: JSON has neither tuples nor keys that are numbers."""
        path = run.store.prompts.path
        with disk_errors(path, "read"):
            return path.exists() and path.read_bytes() == b"".join(map(encode_line, self._records(run)))

    def work(self, run: Run) -> None:
        run.store.prompts.rewrite(self._records(run))

    def tallies(self, run: Run) -> dict[str, Tally]:
        return {"prompts": Tally(len(run.samples), len(run.samples))}

    def _records(self, run: Run) -> list[Record]:
        return [{"id": s.id, "prompt": s.prompt, "index": s.index, "meta": dict(s.meta)} for s in run.samples]
