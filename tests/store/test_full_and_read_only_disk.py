"""A full and a read-only disk, played by the system calls: needs no right to mount, and works as root."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.store.helpers import final_files, run
from wmbench.errors import IntegrityError

SMALL = {"samples": 2, "decoding": {"max_new_tokens": 2}}
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, room: int) -> Callable[[], int]:
    """Everything written after so many syncs fails; returns a counter of syncs."""
    fsync, calls = os.fsync, 0

    def limited(descriptor: int) -> None:
        nonlocal calls
        calls += 1
        if calls > room:
            raise FULL
        fsync(descriptor)

    monkeypatch.setattr("os.fsync", limited)
    return lambda: calls


def protect_the_disk(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Nothing below a folder can be created or opened for writing."""

    def guarded(function: Callable[..., Any], writes: Callable[..., bool]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(path, str | Path) and root in Path(path).parents and writes(path, *arguments, **options):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
            return function(path, *arguments, **options)

        return call

    changing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    monkeypatch.setattr("io.open", guarded(io.open, lambda path, mode="r", *_, **__: bool(set(mode) & set("wax+"))))
    monkeypatch.setattr("os.open", guarded(os.open, lambda path, flags, *_, **__: bool(flags & changing)))
    monkeypatch.setattr("os.mkdir", guarded(os.mkdir, lambda path, *_, **__: not Path(path).exists()))
    for name in ("unlink", "rename", "replace", "truncate"):
        monkeypatch.setattr(f"os.{name}", guarded(getattr(os, name), lambda *_, **__: True))


def test_a_run_on_a_full_disk_is_resumed(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        syncs = fill_the_disk(patch, room=10**9)
        expected = final_files(run(tmp_path / "whole", SMALL).folder)
    total = syncs()
    for room in range(1, total, total // 4):
        output = tmp_path / str(room)
        with pytest.MonkeyPatch.context() as patch:
            fill_the_disk(patch, room)
            with pytest.raises(IntegrityError, match="what was finished before is intact") as caught:
                run(output, SMALL)
        assert caught.value.exit_code == 4
        assert caught.value.why == "No space left on device"
        assert "free some space" in str(caught.value.hint)
        for folder in output.iterdir():
            for name, content in final_files(folder).items():
                assert not name.endswith((".tmp", "owner.json"))
                assert not name.endswith(".jsonl") or content == b"" or content.endswith(b"\n")
        assert final_files(run(output, SMALL).folder) == expected


@pytest.mark.parametrize("finished", [False, True])
def test_a_read_only_disk_is_named_and_left_alone(tmp_path: Path, finished: bool) -> None:
    output = tmp_path / "runs"
    output.mkdir()
    if finished:
        folder = Path(run(output).folder)
        (folder / "attacked" / "identity.jsonl").unlink()
    before = final_files(output)
    with pytest.MonkeyPatch.context() as patch:
        protect_the_disk(patch, output)
        with pytest.raises(IntegrityError) as caught:
            run(output)
    assert caught.value.exit_code == 4
    assert caught.value.why == "Read-only file system"
    assert "--output" in str(caught.value.hint)
    assert final_files(output) == before
    run(output)  # writable again: it goes on
