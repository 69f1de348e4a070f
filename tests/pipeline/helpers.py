"""Runs in this process: the tiny backbone, the green schemes, word salad as null texts."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from wmbench.bench.build import Builder
from wmbench.bench.pipeline import Outcome, execute, execution_order, prepare_all
from wmbench.bench.plan import resolve_runs
from wmbench.bench.stages.base import Run
from wmbench.config import load_config
from wmbench.host import Host

PLUGIN = Path(__file__).with_name("green_plugin.py")
KEY = "5a" * 32
SMALL: dict[str, Any] = {
    "schemes": ["green"],
    "backbone": "tiny",
    "datasets": ["toy"],
    "attacks": ["identity"],
    "samples": 4,
    "decoding": {"max_new_tokens": 24},
    "nulls": ["salad"],
    "calibration_texts": 100,
    "heldout_texts": 50,
}


@cache
def host() -> Host:
    return Host.discover([PLUGIN])


@cache
def builder() -> Builder:
    return Builder(host())


def calls() -> dict[str, int]:
    """The plugin's own counters."""
    return dict(module().CALLS)


def module() -> Any:
    """The plugin itself."""
    import sys

    return sys.modules[host().schemes["green"].info.factory.partition(":")[0]]


def prepared(output: Path, **options: Any) -> list[Run]:
    config = load_config(options={**SMALL, "output": str(output), **options})
    return prepare_all(resolve_runs(config, host()), builder())


def run_all(output: Path, **options: Any) -> list[Outcome]:
    return [execute(run) for run in execution_order(prepared(output, **options))]


def run(output: Path, **options: Any) -> Outcome:
    return run_all(output, **options)[-1]


def metrics(outcome: Outcome) -> dict[str, Any]:
    assert outcome.metrics is not None
    return dict(json.loads(outcome.metrics.read_bytes()))
