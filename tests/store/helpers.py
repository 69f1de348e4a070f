"""Runs in this process, on the tiny backbone and the demo plugin."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from wmbench.bench.build import Builder
from wmbench.bench.pipeline import Outcome, execute, prepare
from wmbench.bench.plan import RunPlan, resolve_runs
from wmbench.config import Overrides, load_config
from wmbench.host import Host

DEMO_PLUGIN = Path(__file__).parents[1] / "cli" / "demo_plugin.py"


@cache
def demo_host() -> Host:
    return Host.discover([DEMO_PLUGIN])


@cache
def builder() -> Builder:
    return Builder(demo_host())


def resolve(options: dict[str, Any], overrides: Overrides | None = None) -> RunPlan:
    defaults = {"schemes": ["none"], "backbone": "tiny", "datasets": ["toy"], "attacks": ["identity"]}
    config = load_config(options={**defaults, **options}, overrides=overrides)
    return resolve_runs(config, demo_host())[0]


def run(output: Path, options: dict[str, Any] | None = None, **arguments: Any) -> Outcome:
    small = {"samples": 6, "decoding": {"max_new_tokens": 12, "eos": "stop"}, "batch_size": 3, "output": str(output)}
    return execute(prepare(resolve({**small, **(options or {})}), builder(), **arguments))


def final_files(folder: str | Path) -> dict[str, bytes]:
    """Everything but timings, traces and the lock: what must not depend on how the run went."""
    root = Path(folder)
    passing = {"timings.jsonl", "trace.jsonl", ".lock", "owner.json"}
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and path.name not in passing)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}
