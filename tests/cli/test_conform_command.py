"""`wmbench conform`: every kind of plugin, what is broken and why, and a suite that nothing outside can change."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from wmbench.cli import main
from wmbench.cli.conform import BACKBONES
from wmbench.testing import AttackContract, SchemeContract
from wmbench.testing.reporting import sentence
from wmbench.testing.subject import ATTENTIONS

GUIDE = Path(__file__).parents[2] / "docs" / "write-a-scheme.md"
ATTACK = """
import os, random
from wmbench import hookimpl
from wmbench.types import AttackInfo, Attacked

class Attack:
    def __init__(self, config): pass

    @hookimpl
    def attack(self, texts):
        BODY

@hookimpl
def register_attacks():
    return [AttackInfo("inline", "SUMMARY", f"{__name__}:Attack", preserves="nothing")]
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["conform", *arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def outcomes(report: dict[str, Any], outcome: str) -> set[str]:
    return {check["check"] for check in report["checks"] if check["outcome"] == outcome}


def contract_checks(contract: type) -> set[str]:
    names = {name for name, _ in inspect.getmembers(contract, inspect.isfunction) if name.startswith("test_")}
    return {name.removeprefix("test_").replace("_", " ") for name in names}


def write_attack(body: str, summary: str = "one line") -> list[str]:
    Path("inline.py").write_text(ATTACK.replace("BODY", body).replace("SUMMARY", summary))
    return ["inline", "--plugin", "inline.py"]


@pytest.fixture(autouse=True)
def surroundings_that_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    Path("pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    Path("conftest.py").write_text("raise SystemExit\n")
    Path("wmbench.py").write_text("raise SystemExit\n")


def test_an_attack_that_keeps_its_contract(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "delete", "-S", "ratio=0.5", "--json")
    report = json.loads(out)
    assert (code, report["conforms"], report["kind"]) == (0, True, "attack")
    assert outcomes(report, "passed") == contract_checks(AttackContract)
    assert report["counts"] == {"passed": len(report["checks"])}


def test_a_broken_attack_in_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    plugin = write_attack("return [Attacked(t.text + str(random.random())) for t in texts]", summary="")
    code, out, err = call(capsys, *plugin, "--debug")
    assert code == 1
    lines = {re.split(r"\s{2,}", line.strip())[0]: line for line in out.splitlines()}
    assert "failed" in lines["is deterministic"]
    assert "failed" in lines["is described"]
    assert "the summary is the line in `wmbench ls`" in lines["is described"]
    assert "passed" in lines["one result per text"]
    assert "attack inline breaks its contract: " in out
    assert "def test_is_described" in err, "--debug shows where"
    assert "def test_is_described" not in call(capsys, *plugin)[2]


def test_one_cause_is_told_once_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, *write_attack("return bonus"))
    told = " ".join(out.split())
    assert code == 1
    assert told.count("NameError: name 'bonus' is not defined (inline.py:11)") == 1
    assert told.count("next step: correct the file") == 1
    assert told.count("failed as: ") == 5
    assert "a stronger setting" not in err


@pytest.mark.parametrize(
    ("preserves", "code", "outcome"), [("meaning", 1, "failed"), ("everything", 0, "not applicable")]
)
def test_an_attack_that_changes_nothing_must_say_so(
    capsys: pytest.CaptureFixture[str], preserves: str, code: int, outcome: str
) -> None:
    plugin = write_attack("return [Attacked(t.text) for t in texts]")
    Path("inline.py").write_text(Path("inline.py").read_text().replace('"nothing"', repr(preserves)))
    ended, out, _ = call(capsys, *plugin, "--json")
    assert ended == code
    assert outcomes(json.loads(out), outcome) == {"changes the text"}


def test_a_suite_that_dies_is_no_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, *write_attack("os._exit(7)"))
    assert (code, out) == (3, "")
    assert "ended before its end" in err
    assert "7" in err


def test_a_scheme_in_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    """The guide's. It is built again in another process, which has to load the file, too."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    Path("greenlist.py").write_text(next(block for block in blocks if "register_schemes" in block))
    chosen = ["greenlist", "--plugin", "greenlist.py", "-S", "delta=3", "--backbone", "tiny"]
    code, out, _ = call(capsys, *chosen, "--json")
    report = json.loads(out)
    assert [check for check in report["checks"] if check["outcome"] != "passed"] == []
    assert code == 0
    assert outcomes(report, "passed") == contract_checks(SchemeContract)
    assert {check["backbone"] for check in report["checks"]} == {None, "tiny"}


@pytest.mark.slow
def test_what_a_scheme_does_not_have_is_not_applicable(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "none", "--backbone", "tiny-block", "--json")
    report = json.loads(out)
    assert code == 0
    assert "verdicts" in outcomes(report, "not applicable")
    reasons = {check["check"]: check["reason"] for check in report["checks"]}
    assert reasons["verdicts"] == "has no detector"
    assert reasons["marks change the text"] == "leaves no mark"


@pytest.mark.slow
def test_a_mark_that_is_too_weak_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "patternmark", "-S", "delta=0", "--backbone", "tiny")
    assert code == 1
    assert "marked texts score higher (tiny)" in out
    assert "a stronger setting" in err


@pytest.mark.parametrize(("name", "kind"), [("tiny", "backbone"), ("mini", "encoder")])
def test_backbones_and_encoders(capsys: pytest.CaptureFixture[str], name: str, kind: str) -> None:
    code, out, _ = call(capsys, name, "--kind", kind, "--json")
    report = json.loads(out)
    assert outcomes(report, "failed") == set()
    assert code == 0
    assert len(outcomes(report, "passed")) >= 6


def test_pytest_is_named_when_it_is_missing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pytest" else found(name))
    code, _, err = call(capsys, "delete")
    assert code == 2
    assert "pip install 'wmbench[testing]'" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["delte"], ["did you mean 'delete'"]),
        (["delte", "--kind", "attack"], ["unknown attack 'delte'"]),
        (["mini"], ["several things", "backbone of plugin lab", "encoder of plugin semantics", "--kind backbone"]),
        (["delete", "-S", "ratoi=1"], ["did you mean 'ratio'"]),
        (["delete", "--backbone", "tiny"], ["--backbone is for schemes"]),
        (["delete", "--tolerance", "1"], ["--tolerance is for"]),
        (["mini", "--kind", "encoder", "-S", "x=1"], ["has no settings"]),
        (["none", "--backbone", "llada-8b"], ["llada-8b"]),
    ],
)
def test_a_users_mistake_exits_2(capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]) -> None:
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    for word in words:
        assert word in err


def test_the_command_and_the_suite_know_the_same_backbones() -> None:
    assert set(BACKBONES) == set(ATTENTIONS)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("AssertionError: is the key used?\nassert [1] != [1]", "is the key used?"),
        ("assert 1 == 2\n +  where 1 = f()", "assert 1 == 2"),
        ("AssertionError: \nNot equal to tolerance\n\nMismatch: 1", "Not equal to tolerance; Mismatch: 1"),
        (
            "wmbench.errors.PluginError: it failed\n  why: KeyError",
            "wmbench.errors.PluginError: it failed; why: KeyError",
        ),
        ("x" * 400, "x" * 300 + "..."),
    ],
)
def test_reasons_are_one_line(message: str, expected: str) -> None:
    assert sentence(message) == expected
