"""Calibrations on disk: exact, readable, without pickle, written whole or not at all, checked when read."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from wmbench.detection import Calibration
from wmbench.errors import ConfigError, IntegrityError
from wmbench.keys import SecretKey

METADATA = {"alg_id": "org.wmbench.denmark.1", "key_id": "0123456789ab", "versions": {"wmbench": "0"}, "null_set": "Ü"}


def example(dtype: str = "f8") -> Calibration:
    scores = np.random.default_rng(1).normal(size=(50, 3)).astype(dtype)
    return Calibration(scores, ("12", "13", "14"), METADATA)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_round_trip(tmp_path: Path, dtype: str) -> None:
    saved = example(dtype)
    saved.save(tmp_path / "c.npz")
    loaded = Calibration.load(tmp_path / "c.npz")
    assert np.array_equal(loaded.null_scores, saved.null_scores)
    assert loaded.null_scores.dtype == saved.null_scores.dtype
    assert loaded.views == saved.views
    assert loaded.metadata == METADATA
    assert os.listdir(tmp_path) == ["c.npz"]


def test_the_file_is_plain_and_reproducible(tmp_path: Path) -> None:
    example().save(tmp_path / "a.npz")
    example().save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert np.array_equal(arrays["null_scores"], example().null_scores)
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        assert json.loads(archive.read("metadata.json"))["metadata"] == METADATA


def test_a_key_cannot_slip_into_the_metadata() -> None:
    with pytest.raises(TypeError, match="not JSON serializable"):
        Calibration(np.zeros((2, 1)), ("a",), {"key": SecretKey.generate()})


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.npz"
    example().save(path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if failing == "fsync" else Path, failing, full)
    with pytest.raises(IntegrityError, match="No space left"):
        Calibration(np.zeros((2, 1)), ("a",)).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["c.npz"]


def test_every_truncation_and_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    saved = Calibration(np.arange(6.0).reshape(3, 2), ("a", "b"), METADATA)
    saved.save(path)
    data = path.read_bytes()
    for cut in range(0, len(data), 17):
        path.write_bytes(data[:cut])
        with pytest.raises(IntegrityError):
            Calibration.load(path)
    unnoticed = 0
    for i in range(0, len(data), 3):
        path.write_bytes(data[:i] + bytes([data[i] ^ 0x20]) + data[i + 1 :])
        try:
            loaded = Calibration.load(path)
        except IntegrityError:
            continue
        unnoticed += 1  # unused header fields of the zip format; the content must be intact
        assert np.array_equal(loaded.null_scores, saved.null_scores)
        assert loaded.metadata == METADATA
        assert loaded.views == saved.views
    assert unnoticed < len(data) / 12


class Executed(Exception):
    pass


class Payload:
    """Unpickling it runs code."""

    def __reduce__(self) -> tuple[object, ...]:
        return exec, (f"raise __import__({__name__!r}, fromlist=['x']).Executed",)


def test_a_pickle_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An otherwise perfect file whose scores are a pickled object."""
    scores = io.BytesIO()
    np.save(scores, np.array([Payload()], dtype=object), allow_pickle=True)
    monkeypatch.setattr("wmbench.detection.archive._npy_bytes", lambda _: scores.getvalue())
    example().save(tmp_path / "evil.npz")
    with pytest.raises(IntegrityError, match="allow_pickle=False"):
        Calibration.load(tmp_path / "evil.npz")


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    np.savez(path, null_scores=np.zeros((3, 2)))
    with pytest.raises(IntegrityError, match=r"metadata\.json"):
        Calibration.load(path)
    path.write_bytes(pickle.dumps({"null_scores": 1}))
    with pytest.raises(IntegrityError, match="damaged"):
        Calibration.load(path)
    with pytest.raises(ConfigError, match="does not exist"):
        Calibration.load(tmp_path / "none.npz")


def test_changed_scores_are_noticed_even_with_a_right_checksum_of_the_zip(tmp_path: Path) -> None:
    path = tmp_path / "c.npz"
    example().save(path)
    with zipfile.ZipFile(path) as archive:
        metadata = archive.read("metadata.json")
    np.savez(path, null_scores=np.zeros((50, 3)))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("metadata.json", metadata)
    with pytest.raises(IntegrityError, match="changed after it was written"):
        Calibration.load(path)


def test_another_schema_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmbench.detection.calibration._SCHEMA", 99)
    example().save(tmp_path / "c.npz")
    monkeypatch.undo()
    with pytest.raises(IntegrityError, match="schema 99; expected schema 1"):
        Calibration.load(tmp_path / "c.npz")
