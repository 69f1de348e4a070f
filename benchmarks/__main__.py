"""Run every benchmark: `python -m benchmarks [name ...]`. Timings are noisy: look at the ratios of one run."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path


def main() -> None:
    names = sorted(m.name for m in pkgutil.iter_modules([str(Path(__file__).parent)]) if m.name != "__main__")
    for name in sys.argv[1:] or names:
        print(f"\n== {name}", flush=True)
        arguments, sys.argv = sys.argv, [f"benchmarks.{name}"]  # each benchmark reads its own defaults
        importlib.import_module(f"benchmarks.{name}").main()
        sys.argv = arguments


if __name__ == "__main__":
    main()
