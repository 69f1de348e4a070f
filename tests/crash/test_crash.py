"""Killed, terminated, locked out, out of disk: a run is always resumable, and its files are always the same."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.store.helpers import final_files
from wmbench.bench.jsonl import JsonlFile
from wmbench.cli import main

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HERE.parents[1])}
CLI = [sys.executable, "-m", "wmbench.cli"]
RUN = ["run", "--scheme", "none", "--backbone", "tiny", "--dataset", "toy", "--attack", "identity"]
SMALL = [*RUN, "--samples", "16", "-D", "max_new_tokens=24", "--batch-size", "2"]


def only_folder(output: Path) -> Path:
    (folder,) = output.iterdir()
    return folder


def finished_more_than_once(folder: Path) -> list[str]:
    ids = [r["id"] for r in JsonlFile(folder / "timings.jsonl").read(repair=True) if r["event"] == "sample"]
    return sorted({i for i in ids if ids.count(i) > 1})


@pytest.mark.filterwarnings("ignore::wmbench.bench.jsonl.TornLineWarning")
def test_sigkill_at_thirty_random_moments(tmp_path: Path) -> None:
    kills = subprocess.run(
        [sys.executable, str(HERE / "forked_cli.py"), str(tmp_path), "30", *SMALL],
        env=ENVIRONMENT, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    events = [json.loads(line) for line in kills.stdout.splitlines()]
    assert sum(event["code"] is None for event in events) == 30
    assert {event["code"] for event in events} <= {None, 0}
    assert any(0 < len(event["after"]) < 16 for event in events if event["code"] is None)
    for event in events:
        assert set(event["before"]) <= set(event["after"])  # nothing finished is lost
    expected = final_files(only_folder(tmp_path / "rehearsal"))
    outputs = sorted({event["output"] for event in events})
    last = subprocess.run(
        [*CLI, *SMALL, "--output", outputs[-1]], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert last.returncode == 0, last.stderr
    for output in outputs:
        assert final_files(only_folder(Path(output))) == expected
        assert finished_more_than_once(only_folder(Path(output))) == []  # nothing finished is redone


DETECTED = [
    "run", "--scheme", "green", "--plugin", str(HERE.parent / "pipeline" / "green_plugin.py"), "--backbone", "tiny",
    "--dataset", "toy", "--attack", "identity", "--samples", "6", "-D", "max_new_tokens=24", "--batch-size", "2",
    "--nulls", "salad", "--calibration-texts", "100", "--heldout-texts", "50", "--keys", "2", "--json",
]  # fmt: skip
MADE = {
    "samples.jsonl",
    "scores/samples.npz",
    "calibration.npz",
    "verdicts/samples.jsonl",
    "controls.npz",
    "metrics.json",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::wmbench.bench.jsonl.TornLineWarning")
def test_samples_scores_and_metrics_are_the_same_in_other_processes_and_after_kills(tmp_path: Path) -> None:
    """Two processes that order their sets and dictionaries differently, then ten that are killed and resumed."""

    def folder(output: Path) -> Path:
        (found,) = output.glob("green_*")
        return found

    keyed = {**ENVIRONMENT, "WMBENCH_KEY": "5a" * 32}
    for seed in ("1", "2"):
        command = [*CLI, *DETECTED, "--output", str(tmp_path / f"process-{seed}")]
        done = subprocess.run(
            command, env={**keyed, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    expected = final_files(folder(tmp_path / "process-1"))
    assert set(expected) >= MADE
    assert final_files(folder(tmp_path / "process-2")) == expected
    assert final_files(tmp_path / "process-1" / ".cache") == final_files(tmp_path / "process-2" / ".cache")

    torture = [sys.executable, str(HERE / "forked_cli.py"), str(tmp_path), "10", *DETECTED]
    kills = subprocess.run(torture, env=keyed, capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in kills.stdout.splitlines()]
    assert any(event["code"] is None and len(event["after"]) == 6 for event in events)  # killed while measuring
    for output in sorted({event["output"] for event in events}):
        command = [*CLI, *DETECTED, "--output", output]
        assert subprocess.run(command, env=keyed, capture_output=True, check=False).returncode == 0
        assert final_files(folder(Path(output))) == expected


SLOW_PLUGIN = """
import pathlib, time
from wmbench import hookimpl
from wmbench.types import SchemeInfo

class Slow:
    @hookimpl
    def decode_step(self, step):
        pathlib.Path("decoding").touch()
        time.sleep(10)  # until it is terminated; the other process must find it at work on any machine
        return step.commit()

def slow(config, context):
    return Slow()

@hookimpl
def register_schemes():
    return [SchemeInfo("slow", "sleeps", f"{__name__}:slow", alg_id="test.slow.1", key_use="none")]
"""


def test_two_processes_and_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second process is refused and told who is working; terminating the first leaves a resumable run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow_plugin.py").write_text(SLOW_PLUGIN)
    arguments = [*SMALL, "--scheme", "slow", "--plugin", "slow_plugin.py"]
    arguments[arguments.index("none")] = "slow"
    first = subprocess.Popen([*CLI, *arguments], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "decoding").exists():
            assert first.poll() is None
            assert time.monotonic() < deadline
            time.sleep(10)  # until it is terminated; the other process must find it at work on any machine
        assert main(arguments) == 4
        refusal = capsys.readouterr().err
        assert "another process is working on this run" in refusal
        assert f"process {first.pid} of " in refusal
        first.send_signal(signal.SIGTERM)
        _, stderr = first.communicate(timeout=60)
    finally:
        first.kill()
        first.wait()
    assert first.returncode == 130, stderr
    assert "run the same command again: it resumes" in stderr
    assert f"command: {shlex.join(['wmbench', *arguments])}" in stderr
    folder = only_folder(tmp_path / "runs")
    assert json.loads((folder / "run.json").read_text())["status"] == "cancelled"
    assert not (folder / "owner.json").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB; needs the right to mount."""
    mount_point = tmp_path / "disk"
    mount_point.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(mount_point)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed here; injected errors are tested in tests/store")
    yield mount_point
    subprocess.run(["umount", str(mount_point)], check=True)


def test_a_full_and_a_read_only_disk(small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*RUN, "--samples", "12", "-D", "max_new_tokens=24", "--output"]
    assert main([*arguments, str(tmp_path / "whole")]) == 0
    expected = final_files(only_folder(tmp_path / "whole"))

    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 44 * 1024)
    assert main([*arguments, str(small_disk / "runs")]) == 4
    message = capsys.readouterr().err
    assert "No space left on device" in message
    assert "free some space" in message
    folder = only_folder(small_disk / "runs")
    for name, content in final_files(folder).items():
        if name.endswith(".jsonl"):
            assert expected[name].startswith(content)  # no torn line was left
    filler.unlink()
    assert main([*arguments, str(small_disk / "runs")]) == 0
    assert final_files(folder) == expected

    (folder / "attacked" / "identity.jsonl").unlink()
    before = final_files(folder)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    capsys.readouterr()
    assert main([*arguments, str(small_disk / "runs")]) == 4
    message = capsys.readouterr().err
    assert "Read-only file system" in message
    assert "--output" in message
    assert final_files(folder) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; the read-only disk stands for it")
def test_a_folder_without_the_right_to_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    assert main([*SMALL, "--output", str(locked / "runs")]) == 4
    assert "make the folder writable" in capsys.readouterr().err
