"""How long do null texts take? `python -m benchmarks.nulls [n]`; figures for 40,000 are extrapolated and say so."""

from __future__ import annotations

import argparse
import os
import time

from wmbench.lab.codec import lab_codec
from wmbench.lab.datasets import null_text, null_texts

FULL_SCALE = 40_000
TARGET_SECONDS = 120.0


def seconds(n: int, workers: int) -> tuple[float, float, int]:
    """Wall time and this process's own processor time to produce and tokenise n null texts, and their tokens."""
    began, busy = time.perf_counter(), time.process_time()
    texts = [null.text for null in null_texts("", n, workers)]
    tokens = sum(len(ids) for ids in lab_codec().encode_batch(texts))
    return time.perf_counter() - began, time.process_time() - busy, tokens


def start_seconds(workers: int) -> float:
    """What a run costs however small it is: starting the workers, which read the language once each."""
    return seconds(workers, workers)[0] if workers > 1 else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", nargs="?", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    null_text(0)  # read the language before the clock starts
    results = {}
    for workers in sorted({1, arguments.workers}):
        fixed = start_seconds(workers)
        taken, busy, tokens = seconds(arguments.n, workers)
        results[workers] = taken
        print(f"{workers} process(es): {arguments.n:,} texts, {tokens:,} tokens in {taken:.1f} s (start {fixed:.1f} s)")
        if arguments.n < FULL_SCALE:
            full = fixed + max(0.0, taken - fixed) / arguments.n * FULL_SCALE
            print(f"  extrapolated to {FULL_SCALE:,} texts: {full:.0f} s (target {TARGET_SECONDS:.0f} s on two cores)")
        if workers == 1:  # on a busy machine wall time measures the neighbours
            print(f"  of it processor time: {busy:.1f} s, {1000 * busy / arguments.n:.2f} ms per text")
    if len(results) > 1:
        print(f"ratio one process / {arguments.workers}: {results[1] / results[arguments.workers]:.2f}")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, this process may use {arguments.workers}")


if __name__ == "__main__":
    main()
