"""A key can be used but not seen: a canary secret must appear in nothing that a program prints or writes."""

from __future__ import annotations

import base64
import copy
import dataclasses
import io
import json
import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path

import pydantic
import pytest

from wmbench.errors import ConfigError, KeyFileError
from wmbench.keys import KeySource, SecretKey

CANARY = bytes.fromhex("c0ffee5ec2e7ca4a21b1a5edfacade0ddba11cab1e5eed5badc0dedecafbad99")


def assert_canary_absent(output: str | bytes, canary: bytes = CANARY) -> None:
    """No 8-byte piece of the secret in hexadecimal, base64, decimal, Python's bytes repr, a list of numbers, or raw."""
    data = output if isinstance(output, bytes) else output.encode("utf-8", "surrogateescape")
    lower = data.lower()
    for start in range(0, len(canary) - 7):
        piece = canary[start : start + 8]
        assert piece not in data
        assert piece.hex().encode() not in lower
        assert repr(piece)[2:-1].encode() not in data
        assert ", ".join(str(byte) for byte in piece).encode() not in data
    for text in (base64.b64encode(canary), base64.urlsafe_b64encode(canary)):
        assert text[:16] not in data
    for order in ("big", "little"):
        assert str(int.from_bytes(canary, order)).encode() not in data


@pytest.mark.parametrize(
    "leak",
    [
        CANARY.hex(),
        f"key={CANARY.hex().upper()}",
        base64.b64encode(CANARY).decode(),
        str(int.from_bytes(CANARY, "big")),
        repr(CANARY),
        str(list(CANARY)),
        b"\x00" + CANARY,
        repr(CANARY[4:20]),
    ],
)
def test_the_canary_check_itself_notices_leaks(leak: str | bytes) -> None:
    with pytest.raises(AssertionError):
        assert_canary_absent(leak)


@pytest.fixture
def key() -> SecretKey:
    return SecretKey.from_hex(CANARY.hex())


class Settings(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    key: SecretKey


@dataclasses.dataclass
class Holder:
    key: SecretKey


PRINTERS: dict[str, Callable[[SecretKey], object]] = {
    "repr": repr,
    "str": str,
    "f-string": lambda key: f"{key}",
    "f-string with width": lambda key: f"{key:>60}",
    "f-string with !r": lambda key: f"{key!r}",
    "percent": lambda key: "%s %r" % (key, key),  # noqa: UP031
    "format": lambda key: format(key, "s"),
    "list": lambda key: str([key]),
    "dataclass": lambda key: repr(Holder(key)),
    "pydantic repr": lambda key: repr(Settings(key=key)),
    "pydantic dump": lambda key: str(Settings(key=key).model_dump()),
    "json with default=str": lambda key: json.dumps({"key": key}, default=str),
    "every attribute": lambda key: f"{key!r} {[getattr(key, name) for name in key.__slots__]}",
    "stream": lambda key: repr(key.stream("denmark", 1, "signs")),
    "token prf": lambda key: repr(key.token_prf("kgw", 1, "green")),
}


@pytest.mark.parametrize("name", PRINTERS)
def test_printing_shows_at_most_the_id(key: SecretKey, name: str) -> None:
    output = str(PRINTERS[name](key))
    assert_canary_absent(output)
    if name not in ("stream", "token prf"):
        assert f"SecretKey(id={key.id})" in output


REFUSALS: dict[str, Callable[[SecretKey], object]] = {
    **{f"pickle protocol {p}": lambda key, p=p: pickle.dumps(key, p) for p in range(pickle.HIGHEST_PROTOCOL + 1)},  # type: ignore[misc]
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "asdict": lambda key: dataclasses.asdict(Holder(key)),
    "json": json.dumps,
    "vars": vars,
    "json with default=vars": lambda key: json.dumps(key, default=vars),
    "pydantic json": lambda key: Settings(key=key).model_dump_json(),
    "pickled stream": lambda key: pickle.dumps(key.stream("denmark", 1, "signs")),
    "pickled token prf": lambda key: pickle.dumps(key.token_prf("kgw", 1, "green")),
    "pickled holder": lambda key: pickle.dumps(Holder(key)),
    "int": int,  # type: ignore[dict-item]
    "bytes": bytes,  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", REFUSALS)
def test_dumping_is_refused_and_the_error_is_silent(key: SecretKey, name: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        REFUSALS[name](key)
    assert_canary_absent("".join(traceback.format_exception(caught.value)))


def test_the_refusal_to_pickle_says_what_to_do(key: SecretKey) -> None:
    with pytest.raises(TypeError, match=f"{key.id}.*KeySource"):
        pickle.dumps(key)


def rich_traceback(error: BaseException, *, max_string: int | None = None) -> str:
    console_module, traceback_module = pytest.importorskip("rich.console"), pytest.importorskip("rich.traceback")
    output = io.StringIO()
    console = console_module.Console(file=output, width=200)
    shown = traceback_module.Traceback.from_exception(
        type(error), error, error.__traceback__, show_locals=True, locals_max_string=max_string
    )
    console.print(shown)
    return output.getvalue()


def crash_with_a_key(key: SecretKey) -> None:
    stream, prf = key.stream("denmark", 1, "signs"), key.token_prf("kgw", 1, "green")
    derived = key.derive("family 1")
    raise RuntimeError(f"{key} {stream} {prf} {derived}")


@pytest.mark.parametrize("max_string", [None, 10])
def test_a_traceback_with_locals_of_a_crash_shows_only_the_id(key: SecretKey, max_string: int | None) -> None:
    with pytest.raises(RuntimeError) as caught:
        crash_with_a_key(key)
    shown = rich_traceback(caught.value, max_string=max_string)
    assert key.id in shown, "the traceback must show locals for this test to mean anything"
    assert_canary_absent(shown)


def secret_text() -> str:
    """The canary with one digit missing at the end: not a key any more, but nearly all of one."""
    return CANARY.hex()[:-1]


def test_a_malformed_key_is_not_shown_by_the_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The frames of this test do not hold the text, so whatever is shown comes from wmbench's own frames.
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_text(secret_text())
    monkeypatch.setenv("CANARY_KEY", secret_text())
    loaders: list[Callable[[], SecretKey]] = [
        lambda: SecretKey.from_hex(secret_text()),
        lambda: SecretKey.from_file(path),
        lambda: SecretKey.from_env("CANARY_KEY"),
        lambda: SecretKey.from_hex(CANARY[:31].hex()),
        lambda: SecretKey.from_hex(CANARY.hex() + "é"),
    ]
    for load in loaders:
        with pytest.raises(KeyFileError) as caught:
            load()
        assert_canary_absent(str(caught.value))
        assert_canary_absent("".join(traceback.format_exception(caught.value)))
        assert_canary_absent(rich_traceback(caught.value))


def test_an_interrupt_inside_the_expansion_shows_only_the_id(key: SecretKey, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever frame is interrupted, its local variables hold no secret."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wmbench.keys._ADDRESS", type("Interrupted", (), {"pack": interrupted})())
    with pytest.raises(KeyboardInterrupt) as caught:
        key.stream("denmark", 1, "signs").bits(0, 0, 8)
    shown = rich_traceback(caught.value)
    assert "_blocks" in shown
    assert_canary_absent(shown)


def test_a_key_given_as_a_name_is_not_repeated() -> None:
    with pytest.raises(ConfigError, match="this is a key") as caught:
        KeySource("file", CANARY.hex())
    assert_canary_absent(str(caught.value))


def test_long_keys_are_as_silent() -> None:
    key = SecretKey.from_hex(CANARY.hex() * 4)
    with pytest.raises(RuntimeError) as caught:
        crash_with_a_key(key)
    assert_canary_absent(rich_traceback(caught.value, max_string=10))


def test_equality_and_hash() -> None:
    same, other = SecretKey.from_hex(CANARY.hex()), SecretKey.from_hex(CANARY[::-1].hex())
    assert same == SecretKey.from_hex(CANARY.hex().upper())
    assert same != other
    assert same != CANARY
    assert same.__eq__(same.id) is False
    assert len({same, SecretKey.from_hex(CANARY.hex()), other}) == 2


# --- files and variables -----------------------------------------------------------------------------------------


def test_a_written_key_is_private_complete_and_never_overwritten(tmp_path: Path, key: SecretKey) -> None:
    path = tmp_path / "key"
    old_mask = os.umask(0)
    try:
        key.write(path)
    finally:
        os.umask(old_mask)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == CANARY.hex() + "\n"
    assert SecretKey.from_file(path) == key
    with pytest.raises(KeyFileError, match="never overwritten"):
        SecretKey.generate().write(path)
    assert SecretKey.from_file(str(path)) == key


def test_a_symbolic_link_is_not_followed_when_writing(tmp_path: Path, key: SecretKey) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyFileError):
        key.write(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_a_failed_write_leaves_no_file(tmp_path: Path, key: SecretKey, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyFileError, match="No space left"):
        key.write(tmp_path / "key")
    assert not (tmp_path / "key").exists()


def test_file_and_folder_are_synced(tmp_path: Path, key: SecretKey, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    key.write(tmp_path / "key")
    assert synced == [(tmp_path / "key").stat().st_ino, tmp_path.stat().st_ino]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660, 0o644])
def test_a_file_open_to_others_is_refused(tmp_path: Path, key: SecretKey, mode: int) -> None:
    path = tmp_path / "key"
    key.write(path)
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"chmod 600 {path}") as caught:
        SecretKey.from_file(path)
    assert f"{mode:04o}" in str(caught.value)
    path.chmod(0o400)
    assert SecretKey.from_file(path) == key


def test_missing_sources_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WMBENCH_KEY", raising=False)
    with pytest.raises(ConfigError, match="WMBENCH_KEY, which is not set"):
        SecretKey.from_env()
    with pytest.raises(KeyFileError, match=r"No such file.*\n.*wmbench key new"):
        SecretKey.from_file(tmp_path / "none")
    with pytest.raises(KeyFileError, match="Is a directory"):
        SecretKey.from_file(tmp_path)
    with pytest.raises(KeyFileError, match="cannot be saved"):
        SecretKey.generate().write(tmp_path / "no folder" / "key")


def test_key_sources_travel_and_load(tmp_path: Path, key: SecretKey, monkeypatch: pytest.MonkeyPatch) -> None:
    key.write(tmp_path / "key")
    monkeypatch.setenv("SOME_KEY", f" {CANARY.hex()}\n")
    for source in (KeySource("file", str(tmp_path / "key")), KeySource("env", "SOME_KEY")):
        travelled = pickle.loads(pickle.dumps(source))
        assert travelled == source
        assert travelled.load() == key


def test_generated_keys_differ() -> None:
    keys = {SecretKey.generate() for _ in range(20)}
    assert len({key.id for key in keys}) == 20
