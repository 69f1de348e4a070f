"""How long do null texts and their scan features take? `python -m benchmarks.nulls [n]`; figures for 40,000 are
extrapolated from fewer, and say so."""

from __future__ import annotations

import argparse
import os
import time

from wmbench.bench.build import Builder
from wmbench.host import Host
from wmbench.lab.codec import lab_codec
from wmbench.lab.datasets import null_text, null_texts
from wmbench.semantics.scan import unit_features
from wmbench.semantics.scan_config import ScanConfig

FULL_SCALE = 40_000
TARGET_SECONDS = 120.0
FEATURES_TARGET_SECONDS = 300.0
FEATURES_AT_ONCE = 1_000
"""Texts: their vectors take 140 MB; those of all 40,000 would take 5.7 GB."""


def seconds(n: int, workers: int) -> tuple[float, float, int]:
    """Wall time and this process's own processor time to produce and tokenise n null texts, and their tokens."""
    began, busy = time.perf_counter(), time.process_time()
    texts = [null.text for null in null_texts("", n, workers)]
    tokens = sum(len(ids) for ids in lab_codec().encode_batch(texts))
    return time.perf_counter() - began, time.process_time() - busy, tokens


def start_seconds(workers: int) -> float:
    """What a run costs however small it is: starting the workers, which read the language once each."""
    return seconds(workers, workers)[0] if workers > 1 else 0.0


def feature_seconds(n: int) -> tuple[float, int]:
    """Wall time to embed all units of all sizes 12..37 of n null texts with the lab's encoder, and how many units."""
    encoder, codec, scan = Builder(Host.discover()).encoder("mini"), lab_codec(), ScanConfig()
    texts = [null.text for null in null_texts("", n)]
    units, began = 0, time.perf_counter()
    for at in range(0, n, FEATURES_AT_ONCE):
        units += len(unit_features(texts[at : at + FEATURES_AT_ONCE], encoder, codec, scan).values)
    return time.perf_counter() - began, units


def say_full_scale(n: int, taken: float, fixed: float, target: float) -> None:
    """What n texts in `taken` seconds, beyond a fixed cost, come to at full scale."""
    if n < FULL_SCALE:
        full = fixed + taken / n * FULL_SCALE
        print(f"  extrapolated to {FULL_SCALE:,} texts: {full:.0f} s (target {target:.0f} s on two cores)")


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
        say_full_scale(arguments.n, max(0.0, taken - fixed), fixed, TARGET_SECONDS)
        if workers == 1:  # on a busy machine wall time measures the neighbours
            print(f"  of it processor time: {busy:.1f} s, {1000 * busy / arguments.n:.2f} ms per text")
    if len(results) > 1:
        print(f"ratio one process / {arguments.workers}: {results[1] / results[arguments.workers]:.2f}")
    taken, units = feature_seconds(arguments.n)
    print(f"scan features: {arguments.n:,} texts, {units:,} units in {taken:.1f} s")
    say_full_scale(arguments.n, taken, 0.0, FEATURES_TARGET_SECONDS)
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, this process may use {arguments.workers}")


if __name__ == "__main__":
    main()
