"""JSON lines survive torn writes, full disks and odd texts."""

from __future__ import annotations

import errno
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmbench.bench.jsonl import JsonlFile, TornLineWarning, encode_line
from wmbench.disk import write_atomic
from wmbench.errors import IntegrityError

RECORDS = [{"id": "a", "text": "eins\nzwei"}, {"id": "b", "text": "größer \u2028 \ud800"}, {"id": "c", "text": "é" * 5}]


@pytest.fixture
def file(tmp_path: Path) -> JsonlFile:
    file = JsonlFile(tmp_path / "samples.jsonl")
    for record in RECORDS:
        file.append(record)
    return file


def test_a_torn_last_line_is_dropped_at_every_byte_offset(file: JsonlFile) -> None:
    content = file.path.read_bytes()
    last = content.rindex(b"\n", 0, -1) + 1
    for cut in range(last + 1, len(content)):
        file.path.write_bytes(content[:cut])
        with pytest.warns(TornLineWarning, match="torn last line"):
            assert file.read(repair=True) == RECORDS[:-1]
        assert file.path.read_bytes() == content[:last]
        file.append(RECORDS[-1])
        assert file.path.read_bytes() == content
    file.path.write_bytes(content[:last])  # cut exactly between two lines: nothing is torn
    assert file.read(repair=True) == RECORDS[:-1]


def test_a_reader_without_the_lock_repairs_nothing(file: JsonlFile) -> None:
    torn = file.path.read_bytes()[:-3]
    file.path.write_bytes(torn)
    with pytest.warns(TornLineWarning):
        file.read()
    assert file.path.read_bytes() == torn


def test_zeros_of_a_power_failure_count_as_torn(file: JsonlFile) -> None:
    content = file.path.read_bytes()
    for tail in (b"\0" * 40, b"\0" * 40 + b"\n"):
        file.path.write_bytes(content + tail)
        with pytest.warns(TornLineWarning):
            assert file.read(repair=True) == RECORDS
        assert file.path.read_bytes() == content


def test_damage_before_the_last_line_is_an_error_that_names_the_line(file: JsonlFile) -> None:
    lines = file.path.read_bytes().split(b"\n")
    lines[1] = lines[1][:-2]
    file.path.write_bytes(b"\n".join(lines))
    with pytest.raises(IntegrityError, match="line 2") as caught:
        file.read(repair=True)
    assert caught.value.where == f"{file.path}:2"


@pytest.mark.parametrize("partial", [0, 7])
def test_a_full_disk_leaves_the_file_as_it_was(file: JsonlFile, monkeypatch: pytest.MonkeyPatch, partial: int) -> None:
    before = file.path.read_bytes()
    write = io.FileIO.write

    class Full(io.FileIO):
        def write(self, data: bytes) -> int:  # type: ignore[override]
            write(self, data[:partial])
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "open", lambda self, *_, **__: Full(self, "ab"))
    with pytest.raises(IntegrityError, match="intact") as caught:
        file.append({"id": "d"})
    monkeypatch.undo()
    assert caught.value.exit_code == 4
    assert "free some space" in (caught.value.hint or "")
    assert file.path.read_bytes() == before


def test_an_atomic_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "run.json"
    write_atomic(target, b"old")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(IntegrityError):
        write_atomic(target, b"new")
    assert target.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@given(st.text(alphabet=st.characters(), max_size=40))
def test_any_text_is_one_line_and_comes_back(text: str) -> None:
    line = encode_line({"text": text})
    assert line.count(b"\n") == 1
    assert json.loads(line) == {"text": text}
