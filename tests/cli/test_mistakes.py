"""Mistakes with files and folders: what, where, why and a next step; before any work is done, and never a traceback."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import IO

import pytest

from wmbench.cli import main

TINY = "--backbone tiny --dataset toy --samples 1 -D max_new_tokens=4 --no-attacks"


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    Path("folder").mkdir()
    Path("file").write_text("plain\n")
    Path("empty.jsonl").write_text('{"text": null}\n')
    Path("latin.txt").write_bytes(b"caf\xe9")
    Path("syntax.py").write_text("x = 1\ndef (\n")
    Path("raises.py").write_text("x = 1\n\nx.nothing\n")
    Path("idle.py").write_text("x = 1\n")
    Path("file").chmod(0o644)
    Path("misspelt.yaml").write_text("schemes: [none]\nheldout_text: 5\n")
    Path("scheme.yaml").write_text("schemes: [greenlist]\n")
    Path("two.yaml").write_text("backbones: [tiny, tiny-block]\n")
    Path("bad.yaml").write_text("schemes: [none")
    Path("damaged").mkdir()
    Path("damaged", "metrics.json").write_text("{")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ("ls --plugin syntax.py", 3, ["does not load", "where: syntax.py:2", "SyntaxError", "next step"]),
        ("ls --plugin raises.py", 3, ["does not load", "where: raises.py:3", "no attribute 'nothing'", "next step"]),
        ("ls --plugin idle.py", 3, ["it registers nothing", "write-a-scheme.md"]),
        ("ls --plugin folder", 2, ["plugin file 'folder' is a folder"]),
        ("validate bad.yaml", 2, ["not valid YAML", "where: bad.yaml", "next step"]),
        ("validate file", 2, ["not a list of", "schemes: [denmark]"]),
        ("validate nowhere.yaml", 2, ["No such file or directory", "next step: check the path"]),
        ("generate --file nowhere", 2, ["where: nowhere", "why: No such file or directory\n", "one prompt per line"]),
        ("generate --file latin.txt", 2, ["where: latin.txt", "UTF-8"]),
        (f"run --scheme none {TINY} --output file", 4, ["Not a directory", "a file stands where a folder is needed"]),
        (f"run --scheme none {TINY} --nulls texts:nowhere.jsonl", 2, ["where: nowhere.jsonl", "check the path"]),
        (f"run --scheme none {TINY} --judge hf:./nowhere", 2, ["no judge 'hf:./nowhere'", "check the path"]),
        ("calibrate --scheme none --backbone tiny --out c.npz", 2, ["no hook score", "next step"]),
        (
            "calibrate --scheme all --backbone tiny --out c.npz",
            2,
            ["one scheme on one", "umr on tiny", "name one"],
        ),
        ("calibrate --scheme umr --config two.yaml --out c.npz", 2, ["umr on tiny, umr on tiny-block"]),
        ("detect file --scheme all --backbone tiny", 2, ["one scheme on one backbone"]),
        ("detect file --calibration folder", 2, ["this is a folder", "where: folder\n", "calibration.npz"]),
        ("detect empty.jsonl --scheme umr --backbone tiny -S p_value=normal", 2, ["no text to judge", "empty.jsonl"]),
        ("detect file --scheme umr --backbone tiny --html folder", 2, ["--html is a folder", "evidence.html"]),
        ("detect file --scheme umr --backbone tiny --html file/x.html", 4, ["Not a directory", "where: file"]),
        ("models check tiny --scheme all", 2, ["one scheme on one backbone"]),
        ("calibrate --scheme none --backbone tiny --out file", 2, ["no calibration", "where: file", "another file"]),
        ("calibrate --scheme none --backbone tiny --out folder", 2, ["--out is a folder", "calibration.npz"]),
        ("calibrate --scheme patternmark --backbone tiny --out file/c.npz", 4, ["File exists", "a file stands where"]),
        ("validate scheme.yaml", 2, ["unknown scheme 'greenlist'", "--plugin FILE.py"]),
        ("validate misspelt.yaml", 2, ["did you mean 'heldout_texts'", "wmbench run --help"]),
        ("validate --scheme none -F min_token=3", 2, ["did you mean 'min_tokens'", "wmbench validate"]),
        ("detect folder --scheme patternmark --backbone tiny", 2, ["holds no text", "next step: name the file itself"]),
        ("key id file", 2, ["no usable key", "where: file", "64 or more hexadecimal digits"]),
        ("compare nowhere folder", 2, ["no such run folder", "where: nowhere"]),
        ("compare folder folder", 2, ["this folder has no results", "where: folder\n", "scheme `none`"]),
        ("compare folder damaged file", 2, ["Two runs are compared, but 3 were given"]),
        ("compare folder", 2, ["Two runs are compared, but 1 were given"]),
        ("compare damaged damaged", 4, ["cannot be read", "where: damaged/metrics.json", "next step"]),
        ("analyse null --scheme denmark --backbone tiny", 2, ["no analytic law", "wmbench ls"]),
    ],
)
def test_a_mistake_is_explained(capsys: pytest.CaptureFixture[str], words: str, code: int, told: list[str]) -> None:
    assert main(words.split()) == code
    output = capsys.readouterr()
    assert output.err.startswith("error: ")
    assert "Traceback" not in output.out + output.err
    for text in told:
        assert text in output.err
    assert not list(Path("runs").rglob("samples.jsonl")), "nothing is decoded before"
    assert not list(Path("runs").rglob("texts.jsonl")), "no null text is drawn before"


@pytest.mark.parametrize("words", ["", "key", "analyse", "lab", "models"])
def test_a_group_without_a_command_shows_its_help(capsys: pytest.CaptureFixture[str], words: str) -> None:
    assert main(words.split()) == 2
    output = capsys.readouterr()
    assert (output.out, output.err.split()[:2]) == ("", ["Usage:", "wmbench"])
    assert "error:" not in output.err


@pytest.mark.parametrize(
    ("words", "key", "code", "told"),
    [
        (f"run --scheme none --scheme patternmark {TINY}", "5a", 2, "no usable key"),
        ("generate --scheme patternmark --backbone tiny red", "5a", 2, "no usable key"),
        ("calibrate --scheme patternmark --backbone tiny --out c.npz", "5a", 2, "no usable key"),
        (f"run --scheme none {TINY} --output file/runs", "5a" * 32, 4, "Not a directory"),
        (f"run --scheme none {TINY} --output sealed/runs", "5a" * 32, 4, "Permission denied"),
        (
            "calibrate --scheme patternmark --backbone tiny --out c.npz --output sealed",
            "5a" * 32,
            4,
            "Permission denied",
        ),
    ],
)
def test_key_and_output_are_looked_at_before_a_model_is_loaded(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: str,
    key: str,
    code: int,
    told: str,
) -> None:
    Path("sealed").mkdir()
    real = tempfile.TemporaryFile

    def forbidden(*, dir: Path) -> IO[bytes]:
        if dir.name == "sealed":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(dir=dir)

    monkeypatch.setattr("tempfile.TemporaryFile", forbidden)
    monkeypatch.setattr("wmbench.bench.build.Builder.backbone", interrupt)
    monkeypatch.setenv("WMBENCH_KEY", key)
    assert main(words.split()) == code
    assert told in capsys.readouterr().err
    assert not list(Path("sealed").iterdir())


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("command", ["run", "sweep", "tune"])
def test_an_interrupted_command_that_resumes_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """Also before its first run, or between two of them."""
    monkeypatch.setattr(f"wmbench.cli.{command}.config_from_options", interrupt)
    assert main([command, "--scheme", "none"]) == 130
    told = "error: interrupted\n  next step: run the same command again: it resumes\n"
    assert capsys.readouterr().err.lstrip() == f"{told}  command: wmbench {command} --scheme none\n"


def test_an_interrupted_command_that_keeps_nothing_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wmbench.cli.calibrate.config_from_options", interrupt)
    assert main(["calibrate", "--scheme", "none", "--out", "c.npz"]) == 130
    assert "nothing was saved; the same command starts over" in capsys.readouterr().err
