"""Calibrations, keys and run files that are cut off, changed or not what they should be: refused, and told why."""

from __future__ import annotations

import json
import os
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hostile.commands import detect, refused
from wmbench.detection.archive import read_archive, write_archive

MANY = {"deadline": None, "database": None, "derandomize": True}
FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
TEXT = "Save a little every month, because interest earns interest. " * 20


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    return file


# --- calibrations --------------------------------------------------------------------------------------------------


def test_a_calibration_cut_off_anywhere(calibrations: dict[str, Path], text: Path, tmp_path: Path) -> None:
    content = calibrations["dlm_kgw"].read_bytes()
    broken = tmp_path / "broken.npz"
    for size in [0, 1, 4, 30, *range(100, len(content), len(content) // 12), len(content) - 1]:
        broken.write_bytes(content[:size])
        assert "damaged" in refused(text, broken, code=4)


def test_a_calibration_with_a_changed_byte_is_refused_or_says_the_same(
    calibrations: dict[str, Path], text: Path, tmp_path: Path
) -> None:
    """Some bytes of a zip archive, such as dates, mean nothing."""
    content = calibrations["dlm_kgw"].read_bytes()
    expected = detect(text, calibrations["dlm_kgw"]).out
    broken, draw, codes = tmp_path / "broken.npz", random.Random(3), []
    for _ in range(30):
        place = draw.randrange(len(content))
        broken.write_bytes(content[:place] + bytes([content[place] ^ (1 << draw.randrange(8))]) + content[place + 1 :])
        answer = detect(text, broken)
        codes.append(answer.code)
        assert answer.code in (0, 4)
        assert answer.code or answer.out == expected
    assert 4 in codes


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every value inside a JSON document."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in items:
        yield from places(inner, (*at, name))


def replaced(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    copy = value.copy()
    copy[at[0]] = replaced(value[at[0]], at[1:], new)
    return copy


_VALUES = [None, [], {}, "", "x", 0, -1, 7, 1.5, True, [1, 2], ["a", "b"], {"name": "x"}, "é\x00"]


@settings(max_examples=60, suppress_health_check=FIXTURES, **MANY)  # type: ignore[arg-type]
@given(data=st.data())
def test_a_calibration_that_says_something_else(
    data: st.DataObject, calibrations: dict[str, Path], text: Path, tmp_path: Path
) -> None:
    """Whole and signed, but not what wmbench writes."""
    scheme = data.draw(st.sampled_from(["dlm_kgw", "denmark"]))
    arrays, header = read_archive(calibrations[scheme])
    at = data.draw(st.sampled_from(list(places(header))[1:]))
    other = tmp_path / "other.npz"
    write_archive(other, arrays, replaced(header, at, data.draw(st.sampled_from(_VALUES))))
    detect(text, other)


@pytest.mark.parametrize("kind", ["no zip", "no metadata", "metadata is a list", "letters for scores", "one score"])
def test_other_files_in_place_of_a_calibration(
    kind: str, calibrations: dict[str, Path], text: Path, tmp_path: Path
) -> None:
    import numpy as np

    other = tmp_path / "other.npz"
    arrays, header = read_archive(calibrations["dlm_kgw"])
    if kind == "no zip":
        other.write_bytes(os.urandom(5_000))
    elif kind == "no metadata":
        with zipfile.ZipFile(other, "w") as archive:
            archive.writestr("null_scores.npy", b"")
    elif kind == "metadata is a list":
        with zipfile.ZipFile(other, "w") as archive:
            archive.writestr("metadata.json", "[]")
    elif kind == "letters for scores":
        write_archive(other, {"null_scores": np.array([["a"], ["b"]])}, header)
    else:
        write_archive(other, {"null_scores": arrays["null_scores"][0]}, header)
    assert detect(text, other).code in (2, 4)


def test_a_calibration_of_another_scheme_key_or_none(
    calibrations: dict[str, Path], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "another detector" in refused(text, calibrations["umr"], "--scheme", "dlm_kgw")
    assert "does not exist" in refused(text, tmp_path / "none.npz")
    assert "this is a folder" in refused(text, tmp_path)
    monkeypatch.setenv("WMBENCH_KEY", "5b" * 32)
    assert "key id" in refused(text, calibrations["dlm_kgw"])


@pytest.mark.parametrize("alpha", ["0", "1", "-1", "2", "nan", "inf", "1e-300", "x"])
def test_levels_out_of_range(alpha: str, calibrations: dict[str, Path], text: Path) -> None:
    refused(text, calibrations["dlm_kgw"], "--alpha", alpha)


# --- keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "secret", ["", "5a", "5a" * 31, "5a" * 31 + "5", "zz" * 32, "5a" * 31 + "é!", "\t", "0x" + "5a" * 31]
)
def test_keys_of_a_wrong_length_or_alphabet(
    secret: str, calibrations: dict[str, Path], text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTHER", secret)
    file = tmp_path / "key"
    file.write_text(secret, encoding="utf-8")
    file.chmod(0o600)
    for source in ("env:OTHER", f"file:{file}"):
        error = refused(text, calibrations["dlm_kgw"], "--key", source)
        assert "no usable key" in error
        assert len(secret) < 4 or secret not in error


def test_key_files_that_are_none(calibrations: dict[str, Path], text: Path, tmp_path: Path) -> None:
    public = tmp_path / "public"
    public.write_text("5a" * 32)
    public.chmod(0o644)
    for source in (f"file:{tmp_path}", f"file:{tmp_path / 'none'}", f"file:{public}", "env:NO_SUCH_KEY", "key", ""):
        refused(text, calibrations["dlm_kgw"], "--key", source)


# --- texts of a run ------------------------------------------------------------------------------------------------


def test_samples_cut_off_anywhere(calibrations: dict[str, Path], tmp_path: Path) -> None:
    lines = [json.dumps({"id": f"s{i}", "text": TEXT, "token_ids": list(range(30))}) for i in range(3)]
    content = "\n".join(lines).encode()
    file = tmp_path / "samples.jsonl"
    for size in [*range(1, len(content), len(content) // 10), len(content)]:
        file.write_bytes(content[:size])
        is_whole = content[size : size + 1] in (b"", b"\n") or content[size - 1 : size] == b"\n"
        answer = detect(file, calibrations["dlm_kgw"])
        assert answer.code == (0 if is_whole else 2)
        assert is_whole or "not JSON" in answer.err


def test_sources_that_are_none(calibrations: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    loop = tmp_path / "loop.txt"
    loop.symlink_to(loop)
    for source in (tmp_path / "none.txt", folder, loop, Path("/dev/null/x"), Path("x" * 5_000)):
        refused(source, calibrations["dlm_kgw"])
