"""The whole command: an endpoint that dies half way, the same command again, and a key that is seen nowhere."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.attacks_model.conftest import CANARY, needs_openai
from tests.attacks_model.server import Endpoint
from wmbench.cli import main

pytestmark = needs_openai

ATTACK = "llm-document-rewrite"


@pytest.fixture
def command(llm: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    run = ["run", "--scheme", "none", "--backbone", "tiny", "--dataset", "toy", "--samples", "5", "--attack", ATTACK]
    settings = {**llm, "retries": 2, "workers": 1}
    overrides = [part for name, value in settings.items() for part in ("-A", f"{name}={value}")]
    return [*run, "-D", "max_new_tokens=8", "--debug", *overrides]


def attacked(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("runs/*/attacked/*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_same_command_completes_without_paying_twice(
    command: list[str], endpoint: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.dies_after = 2
    assert main(command) == 1
    assert "the endpoint does not answer" in capsys.readouterr().err
    (run_file,) = tmp_path.glob("runs/*/run.json")
    assert json.loads(run_file.read_text())["status"] == "error"
    endpoint.stop()
    endpoint.start()
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("success: ")
    records = attacked(tmp_path)
    assert all(record["text"] and record["error"] is None for record in records)
    assert len(endpoint.answered) == len(set(endpoint.answered)) == len({record["text"] for record in records})
    assert main(command) == 0
    assert capsys.readouterr().out.startswith("already complete")
    assert len(endpoint.answered) == len(set(endpoint.answered))


def test_a_failed_text_is_recorded_as_failed(
    command: list[str], endpoint: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint.faults.extend(["empty"] * 2)
    assert main([*command, "-A", "attempts=2"]) == 1  # one of five is above the limit of failures
    failed, *others = attacked(tmp_path)
    assert failed["text"] is None
    assert "the answer is empty (2 answers)" in failed["error"]
    assert all(record["text"] for record in others)
    assert "(1 failed)" in capsys.readouterr().out


def test_the_budget_of_the_command_is_kept_and_extended(
    command: list[str], endpoint: Endpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--max-calls", "2"]) == 1
    assert "max_calls = 2" in capsys.readouterr().err
    assert len(endpoint.prompts) == 2
    assert main([*command, "--max-cost", "1"]) == 2
    assert "max_cost needs price_in and price_out" in capsys.readouterr().err
    assert main([*command, "--max-calls", "1000"]) == 0  # a budget is no part of the results: the same folder goes on
    assert len(endpoint.answered) == len(set(endpoint.answered)) == len({r["text"] for r in attacked(tmp_path)})


def test_the_budget_holds_for_attacks_inside_of_attacks(
    llm: dict[str, Any], endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = ["run", "--scheme", "none", "--backbone", "tiny", "--dataset", "toy", "--samples", "5"]
    inner = ["-A", "compress=llm-rewrite", "-A", "expand=llm-expand", "-A", f"settings={json.dumps(llm)}"]
    command = [*run, "-D", "max_new_tokens=8", "--attack", "nonuniform-alternating", *inner]
    assert main([*command, "--max-calls", "3"]) == 1
    assert len(endpoint.prompts) == 3
    assert main(command) == 0
    assert all(record["text"] for record in attacked(tmp_path))


def test_the_key_is_seen_nowhere(
    command: list[str],
    endpoint: Endpoint,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not even when the endpoint itself repeats it, in errors and in answers."""
    caplog.set_level(logging.DEBUG)
    endpoint.faults.append("401")
    assert main(command) == 2
    endpoint.faults.extend(["500"] * 3)
    assert main(command) == 1  # it seems to be down
    endpoint.faults.clear()
    endpoint.faults.extend(["429", "echo", None, "400", "garbage", "echo"])
    assert main(command) == 1  # one text was refused
    assert main([*command, "-A", f"api_key_env={CANARY}"]) == 2
    assert main([*command, "-A", f"base_url=http://me:{CANARY}@127.0.0.1/v1"]) == 2
    assert endpoint.keys == {CANARY}
    printed = capsys.readouterr()
    assert "Traceback" in printed.err
    assert "your key (API key) is not welcome" in printed.err
    assert sum("HTTP 400" in (record["error"] or "") for record in attacked(tmp_path)) == 1
    assert CANARY not in printed.out + printed.err + caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"run.json", "answers.sqlite", "samples.jsonl"} <= {path.name for path in files}
    for path in files:
        assert CANARY.encode() not in path.read_bytes(), path
