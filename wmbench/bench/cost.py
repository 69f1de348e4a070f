"""What a generated token costs: counted (the same on every machine), and timed (of the machine that ran it)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wmbench.bench.jsonl import JsonlFile, Record
from wmbench.bench.measure import bootstrapped

COUNTED: Final = ("forward_rows", "forward_tokens", "head_rows", "steps")
"""Fields of a sample's cost."""


def cost_per_token(samples: Sequence[Record], clean: Sequence[Record] = ()) -> dict[str, Any]:
    """Means over samples with intervals, and their ratio to clean decoding when there are clean samples."""
    found: dict[str, Any] = {"tokens": int(_table(samples)[:, -1].sum()) if samples else 0}
    if not found["tokens"]:
        return found
    own, reference = _table(samples), _table(clean) if clean else None
    for column, name in enumerate(COUNTED):
        found[name] = bootstrapped(_ratio, own[:, [column, -1]])
        if reference is not None and reference[:, column].any():
            pairs = own[:, [column, -1]], reference[:, [column, -1]]
            found[f"{name}_ratio"] = bootstrapped(lambda a, b: _ratio(a) / _ratio(b), *pairs)
    return found


def _table(samples: Sequence[Record]) -> npt.NDArray[np.float64]:
    """[samples, counted + 1]: the counts, and behind them the generated tokens."""
    rows = [[sample["cost"][name] for name in COUNTED] + [len(sample["token_ids"])] for sample in samples]
    return np.array(rows, dtype=np.float64)


def _ratio(rows: npt.NDArray[np.float64]) -> float:
    return float(rows[:, 0].sum() / max(1.0, rows[:, 1].sum()))


def seconds_per_token(folder: Path) -> Mapping[str, Any] | None:
    """Decoding time over all invocations of a run, from timings.jsonl; None when nothing was timed.

    Not part of metrics.json, which is the same wherever and however often it is computed.
    """
    seconds, tokens, last = 0.0, 0, 0.0
    batch_sizes, threads = set[int](), set[int]()
    for record in JsonlFile(folder / "timings.jsonl").read():
        if record["event"] == "invocation":
            seconds, last = seconds + last, 0.0  # the clock of each invocation starts at zero
            batch_sizes.add(record["batch_size"])
            threads.add(record["threads"])
        elif record["event"] == "sample":
            last, tokens = max(last, record["at"]), tokens + record["tokens"]
    seconds += last
    if not tokens:
        return None
    return {
        "seconds_per_token": seconds / tokens,
        "tokens": tokens,
        "batch_sizes": sorted(batch_sizes),
        "threads": sorted(threads),
    }
