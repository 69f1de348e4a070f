"""`wmbench attack`: the texts, the failures and the exit codes of a run, without the run."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.store.helpers import DEMO_PLUGIN
from wmbench.cli import main

PLUGIN = ["--plugin", str(DEMO_PLUGIN)]
TEXT = "The river rises in spring.\nIt floods the meadows, and the cattle move uphill.\n"


@pytest.fixture(autouse=True)
def private_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    Path("a.txt").write_text(TEXT)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["attack", *arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


def test_one_result_is_its_text_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--attack", "delete:0.5", "a.txt")
    assert code == 0
    assert len(out.split()) == len(TEXT.split()) // 2
    assert set(out.split()) <= set(TEXT.split())
    assert out.endswith("\n")
    assert not out.endswith("\n\n")
    assert call(capsys, "--attack", "delete:0.5", "a.txt")[1] == out
    assert call(capsys, "--attack", "delete:0.5", "a.txt", "--seed", "1")[1] != out


def test_several_results_have_headings(capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    Path("folder/b.txt").write_text(TEXT)
    _, out, _ = call(capsys, "--attack", "delete:grid", "--attack", "swap|crop", "a.txt", "folder")
    found = [line for line in out.splitlines() if line.startswith("==> ")]
    labels = ["delete-0.1", "delete-0.2", "delete", "delete-0.4", "delete-0.5", "swap+crop"]
    assert found == [f"==> {name}, {label} <==" for label in labels for name in ("a.txt", "folder/b.txt")]


def test_a_runs_samples_come_out_as_in_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Ids, prompts, seed and backbone are the run's: `remask` depends on all of them."""
    chosen = ["--attack", "remask:0.4", "--attack", "swap|delete:0.2", "--backbone", "tiny", "--seed", "5"]
    run = ["run", "--scheme", "none", "--dataset", "toy", "--samples", "3", "-D", "max_new_tokens=16", "--json"]
    assert main([*run, *chosen]) == 0
    folder = Path(json.loads(capsys.readouterr().out)["runs"][0]["folder"])
    assert call(capsys, str(folder / "samples.jsonl"), *chosen, "--out", "new/out.jsonl")[0] == 0
    made = records(Path("new/out.jsonl").read_text())
    for label in ("remask-0.4", "swap+delete-0.2"):
        expected = records((folder / "attacked" / f"{label}.jsonl").read_text())
        assert len(expected) == 3
        assert [record for record in made if record["attack"] == label] == [
            {**record, "attack": label} for record in expected
        ]


def test_texts_of_records_and_of_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = lines({"id": "x", "text": TEXT}, {"id": 7, "text": TEXT}, TEXT, {"id": "failed", "text": None})
    Path("b.jsonl").write_text(content)
    from_file = records(call(capsys, "--attack", "delete", "b.jsonl", "--json")[1])
    assert [record["id"] for record in from_file] == ["x", "7", "b.jsonl:3"]
    assert len({record["text"] for record in from_file}) == 3, "each text has randomness of its own"

    def standard_input(content: str) -> None:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))

    standard_input(content)
    from_stdin = records(call(capsys, "--attack", "delete", "--jsonl", "-", "--json")[1])
    assert from_stdin[:2] == from_file[:2]
    assert from_stdin[2]["id"] == "standard input:3"
    standard_input(TEXT)
    assert "river" in call(capsys, "--attack", "crop:0.1")[1]


def test_failed_texts_have_a_reason_and_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    Path("b.jsonl").write_text(lines({"id": "x-0", "text": "spam"}, {"id": "x-9", "text": "eggs"}))
    flaky = ["--attack", "flaky:0.1", *PLUGIN, "b.jsonl"]
    code, out, err = call(capsys, *flaky)
    assert code == 1
    assert out == "==> x-9, flaky-0.1 <==\nEGGS\n"
    assert err == "failed: x-0, flaky-0.1: no luck\n"
    code, out, _ = call(capsys, *flaky, "--json", "--failure-limit", "0.5")
    assert code == 0
    failed, done = records(out)
    assert failed == {"id": "x-0", "attack": "flaky-0.1", "text": None, "error": "no luck", "details": {}}
    assert done["text"] == "EGGS"
    code, out, _ = call(capsys, *flaky, "--attack", "identity", "--out", "o.jsonl", "--json")
    assert code == 1, "the worst attack counts, as in a run"
    both = {"flaky-0.1": {"texts": 2, "failed": 1}, "identity": {"texts": 2, "failed": 0}}
    assert json.loads(out) == {"file": "o.jsonl", "attacks": both}
    assert "flaky-0.1: 2 texts, 1 failed\n" in call(capsys, *flaky, "--out", "o.jsonl")[1]
    assert records(Path("o.jsonl").read_text())[0] == failed
    assert not list(Path().glob("*.part"))


def test_a_text_that_no_terminal_can_show(capsys: pytest.CaptureFixture[str]) -> None:
    Path("b.jsonl").write_text('"lone \\ud800 surrogate and more words"\n')
    code, out, _ = call(capsys, "--attack", "identity", "b.jsonl")
    assert (code, out) == (0, "lone ? surrogate and more words\n")
    assert records(call(capsys, "--attack", "identity", "b.jsonl", "--json")[1])[0]["text"].startswith("lone \ud800")
    call(capsys, "--attack", "identity", "b.jsonl", "--out", "o.jsonl")
    assert records(Path("o.jsonl").read_text())[0]["text"].startswith("lone \ud800")


def test_what_was_finished_survives_an_attack_that_raises(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Path("raising.py").write_text(
        "from wmbench import hookimpl\n"
        "from wmbench.types import AttackInfo\n"
        "class Raising:\n"
        "    def __init__(self, config): pass\n"
        "    @hookimpl\n"
        "    def attack(self, texts): raise RuntimeError('oops')\n"
        "@hookimpl\n"
        "def register_attacks(): return [AttackInfo('raising', 'raises', f'{__name__}:Raising')]\n"
    )
    Path("o.jsonl").write_text("older\n")
    chosen = ["--attack", "identity", "--attack", "raising", "--plugin", "raising.py"]
    code, _, err = call(capsys, *chosen, "a.txt", "--out", "o.jsonl")
    assert code == 3
    assert "RuntimeError: oops" in err
    assert "o.jsonl.part" in err
    assert Path("o.jsonl").read_text() == "older\n"
    assert records(Path("o.jsonl.part").read_text())[0]["attack"] == "identity"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["a.txt"], ["at least one --attack"]),
        (["--attack", "delte", "a.txt"], ["did you mean 'delete'"]),
        (["--attack", "delete:2", "a.txt"], ["delete", "ratio"]),
        (["--attack", "delete", "nowhere.txt"], ["nowhere.txt", "cannot be read"]),
        (["--attack", "delete", "twice.jsonl"], ["two texts have the same id", "'x'"]),
        (["--attack", "delete", "empty.jsonl"], ["no text to attack"]),
        (["--attack", "delete", "a.txt", "--out", "."], ["--out is a folder"]),
        (
            ["--attack", "nonuniform-runs", "-A", "nonuniform-runs.compress=nothing", "a.txt"],
            ["unknown attack 'nothing'"],
        ),
        (["--attack", "llm-rewrite", "-A", "llm-rewrite.model=m", "a.txt"], ["OPENAI_API_KEY"]),
    ],
)
def test_a_users_mistake_is_told_before_anything_is_attacked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: list[str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path("twice.jsonl").write_text(lines({"id": "x", "text": "a"}, {"id": "x", "text": "b"}))
    Path("empty.jsonl").write_text("")
    first = ["--attack", "identity"] if "--attack" in arguments else []
    code, out, err = call(capsys, *first, *arguments)
    assert (code, out) == (2, "")
    for word in words:
        assert word in err
