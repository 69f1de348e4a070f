"""How long `wmbench --help`, `ls` and `plugins` take to start, beside a bare Python. Target: 0.5 s when idle."""

from __future__ import annotations

import subprocess
import sys
import time


def seconds(command: list[str], repeats: int = 5) -> float:
    """The fastest of several runs: the machine's noise only ever adds."""
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        best = min(best, time.perf_counter() - began)
    return best


def main() -> None:
    bare = seconds([sys.executable, "-c", "pass"])
    print(f"{'python -c pass':20} {bare:.3f} s")
    for arguments in (["--help"], ["ls"], ["plugins"]):
        took = seconds([sys.executable, "-m", "wmbench.cli", *arguments])
        print(f"{'wmbench ' + arguments[0]:20} {took:.3f} s   {took / bare:.1f} x bare Python")


if __name__ == "__main__":
    main()
