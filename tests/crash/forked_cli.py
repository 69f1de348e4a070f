"""Runs the command line again and again, each time in a new process that is killed at a random moment.

Importing torch takes seconds, so it is imported once and every process is forked from here. What runs in the fork is
the whole of `wmbench run`, from the arguments to the exit code; SIGKILL gives it no chance to tidy up.

Prints one JSON line per killed or finished process: the folder's whole sample lines before and after.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch  # noqa: F401  imported for the forks

import wmbench.bench.pipeline
import wmbench.runtime.loop  # noqa: F401
from wmbench.cli import main


def whole_lines(output: Path) -> list[str]:
    lines = [line for file in output.glob("*/samples.jsonl") for line in file.read_bytes().split(b"\n")[:-1]]
    return sorted(json.loads(line)["id"] for line in lines)


def fork_and_kill(arguments: list[str], output: Path, delay: float) -> int | None:
    """The exit code, or None when the process was killed before its end."""
    child = os.fork()
    if child == 0:
        log = os.open(output.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os._exit(main([*arguments, "--output", str(output)]))
    deadline = time.monotonic() + delay
    while time.monotonic() < deadline:
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def torture(root: Path, kills: int, arguments: list[str]) -> None:
    moments = random.Random(20)
    begun = time.monotonic()
    assert fork_and_kill(arguments, root / "rehearsal", 120.0) == 0
    duration = time.monotonic() - begun
    folder_number = 0
    while kills:
        output = root / f"killed-{folder_number}"
        before = whole_lines(output)
        code = fork_and_kill(arguments, output, moments.uniform(0.0, 0.4 * duration))
        print(json.dumps({"output": str(output), "before": before, "after": whole_lines(output), "code": code}))
        if code is None:
            kills -= 1
        else:
            folder_number += 1


if __name__ == "__main__":
    torture(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
