"""What an attack needs is missed before anything is decoded, and a slow attack says how far it has come."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.helpers import PLUGIN, builder, prepared, run
from wmbench.bench.attack_files import attack_into
from wmbench.bench.jsonl import JsonlFile
from wmbench.cli import main
from wmbench.errors import ConfigError, UnknownNameError
from wmbench.observers import ProgressObserver, watched
from wmbench.types import Attacked, AttackInput


@pytest.mark.parametrize(
    ("attack", "settings", "message"),
    [
        ("llm-rewrite", {"api_key_env": "NO_SUCH_KEY"}, "no API key"),
        ("nonuniform-halves", {"compress": "llm-compress"}, "no API key"),
        ("identity|llm-rewrite", {}, "no API key"),
        ("parrot", {"model": "./nowhere"}, "no directory"),
        ("parrot", {"model": "."}, "cannot be found"),
        ("dipper", {"model": ".", "tokenizer": "/nowhere"}, "cannot be found"),
        ("substitute", {"model": "hf:./nowhere"}, "no directory"),
        ("substitute", {"model": "tinny"}, "unknown backbone 'tinny'"),
        ("remask", {"backbone": "tinny"}, "unknown backbone 'tinny'"),
        ("remask", {"backbone": "masked-lm:"}, "needs an argument after the colon"),
        ("remask", {"backbone": "./nowhere"}, "directory"),
        ("nonuniform-regions", {"compress": "lab-compres"}, "unknown attack 'lab-compres'"),
    ],
)
def test_what_is_missing_shows_before_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attack: str, settings: dict[str, Any], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises((ConfigError, UnknownNameError), match=message):
        prepared(tmp_path / "runs", attacks=[{"name": attack, "params": settings}])
    assert not (tmp_path / "runs").exists()


def test_the_command_refuses_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    command = ["run", "--scheme", "none", "--backbone", "tiny", "--dataset", "toy", "--output", str(tmp_path / "runs")]
    for attack, message in (("llm-rewrite", "no API key"), ("parrot", "no directory")):
        settings = ["-A", "parrot.model=./nowhere"] if attack == "parrot" else []
        assert main([*command, "--attack", attack, *settings, "--plugin", str(PLUGIN)]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_all_are_all_that_can_work_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    notes: list[str] = []
    monkeypatch.setattr(builder(), "note", notes.append)
    (run,) = prepared(tmp_path / "runs", attacks=["all"])
    labels = {attack.label for attack in run.plan.attacks}
    assert {"identity", "delete", "remask"} <= labels
    assert not labels & {"llm-rewrite", "dipper", "parrot"}
    assert any("llm-rewrite" in note and "no API key" in note for note in notes)
    assert any("dipper" in note for note in notes)
    with pytest.raises(ConfigError, match="no API key"):
        prepared(tmp_path / "runs", attacks=["all", "llm-rewrite"])  # asked for by name
    (tmp_path / "text.txt").write_text("w3 w4 w5 w6")
    command = ["attack", str(tmp_path / "text.txt"), "--attack", "all", "--plugin", str(PLUGIN)]
    main([*command, "--backbone", "tiny"])
    assert "left out of `all`: llm-compress" in capsys.readouterr().err


def test_an_attack_that_is_done_needs_its_key_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finished run can be opened, and its missing derived files made again, by someone without the key."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    outcome = run(tmp_path, attacks=["identity"])
    attacked = Path(outcome.folder) / "attacked"
    (attacked / "llm-rewrite.jsonl").write_bytes((attacked / "identity.jsonl").read_bytes())
    assert run(tmp_path, attacks=["llm-rewrite"]).counts["attacked/llm-rewrite"].done == 4
    file = JsonlFile(attacked / "llm-rewrite.jsonl")
    file.rewrite(file.read()[:-1])
    with pytest.raises(ConfigError, match="no API key"):
        prepared(tmp_path, attacks=["llm-rewrite"])


def test_a_slow_attack_shows_its_progress_and_a_fast_one_is_silent(tmp_path: Path) -> None:
    items = [AttackInput(f"i{n}", "w3") for n in range(40)]
    for seconds, expected in ((30.0, "slow: 16/40 texts, 0.5 texts/s, 1.88 s/text, 45s left"), (0.0, "")):
        now, log = [0.0], io.StringIO()

        def attack(batch: Any, seconds: float = seconds, now: list[float] = now) -> list[Attacked]:
            now[0] += seconds
            return [Attacked(item.text) for item in batch]

        progress = ProgressObserver(log, clock=lambda now=now: now[0])  # type: ignore[misc]
        with watched(progress, "slow", len(items)) as advance:
            attack_into(JsonlFile(tmp_path / f"{seconds}.jsonl"), items, attack, advance)
        assert expected in log.getvalue()
        assert bool(log.getvalue()) == bool(expected)
