"""The commands, called as a user calls them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.store.helpers import DEMO_PLUGIN
from wmbench.cli import main
from wmbench.cli.app import COMMANDS
from wmbench.cli.docs import TARGET, cli_markdown

pytestmark = pytest.mark.usefixtures("private_surroundings")

TINY = ["--backbone", "tiny", "--dataset", "toy", "--samples", "3", "-D", "max_new_tokens=8"]
PLUGIN = ["--plugin", str(DEMO_PLUGIN)]


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    output = capsys.readouterr()
    return code, output.out, output.err


def test_run_resumes_and_says_when_it_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "run", "--scheme", "none", *TINY)
    assert code == 0
    assert out.startswith("success: runs/none_tiny_toy_")
    code, out, _ = call(capsys, "run", "--scheme", "none", *TINY)
    assert (code, out.split(":")[0]) == (0, "already complete")


def test_run_as_json_and_with_a_config_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    settings = "schemes: [none]\nbackbone: tiny\ndatasets: [toy]\nsamples: 2\ndecoding: {max_new_tokens: 4}\n"
    (tmp_path / "c.yaml").write_text(settings)
    code, out, _ = call(capsys, "run", "--config", "c.yaml", "--no-attacks", "--json")
    (report,) = json.loads(out)["runs"]
    assert (code, report["status"], report["counts"]["samples"]["done"]) == (0, "success", 2)
    assert Path(report["folder"]).is_dir()


def test_several_schemes_of_which_one_fails(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "run", "--scheme", "raising", "--scheme", "none", *TINY, *PLUGIN)
    assert code == 3
    assert "success: runs/none_tiny_toy_" in out
    assert "plugin demo_plugin" in err
    assert "decode_step" in err
    assert "Traceback" not in err


def test_the_json_of_several_runs_tells_which_failed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    both = ["run", "--scheme", "raising", "--scheme", "none", *TINY, *PLUGIN, "--no-attacks", "--json"]
    code, out, _ = call(capsys, *both)
    failed, done = json.loads(out)["runs"]
    assert (code, failed["status"], done["status"], done["error"]) == (3, "error", "success", None)
    assert "hook decode_step" in failed["error"]["message"]
    assert "raising_tiny_toy" in failed["folder"]
    Path(done["folder"], "run.json").write_text("{}")
    code, out, _ = call(capsys, *both)
    errors = [entry["error"] for entry in json.loads(out)["runs"]]
    assert code == 4
    assert "hook decode_step" in errors[0]["message"]
    assert errors[1]["message"] == "run.json has another format"
    assert errors[1]["next_step"]


def test_failures_above_the_limit_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "--scheme", "none", "--attack", "flaky:0.1", *TINY, *PLUGIN]
    code, out, _ = call(capsys, *arguments)
    assert code == 1
    assert "(1 failed)" in out
    assert call(capsys, *arguments, "--failure-limit", "0.5")[0] == 0


def test_a_first_run_makes_its_own_key(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = call(
        capsys, "run", "--scheme", "demo", "--scheme", "none", *TINY, *PLUGIN, "--no-attacks", "--json"
    )
    assert code == 0
    assert "made a secret key for you" in err
    assert "decoded differently, as published, on tiny: " in err
    assert " (demo)" in err
    assert " (none)" in err
    key_file = tmp_path / "config" / "wmbench" / "key"
    assert key_file.stat().st_mode & 0o777 == 0o600
    document = json.loads((Path(json.loads(out)["runs"][0]["folder"]) / "run.json").read_text())
    assert call(capsys, "key", "id")[1].strip() == document["key_id"]


def test_dry_run_estimates_and_writes_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "run", "--scheme", "none", *TINY, "--dry-run", "--json")
    (report,) = json.loads(out)["runs"]
    assert (code, report["estimate"]["forwards"], report["estimate"]["steps_per_sample"]) == (0, 24, 8)
    assert not (tmp_path / "runs").exists()
    code, out, _ = call(capsys, "run", "--scheme", "none", *TINY, "--dry-run")
    assert "about 24 forwards" in out
    assert "max_new_tokens=8" in out


def test_dry_run_of_a_keyed_scheme_makes_no_key(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = call(capsys, "run", "--scheme", "demo", "--scheme", "raising", *TINY, *PLUGIN, "--dry-run")
    assert code == 3  # `raising` cannot be timed
    assert err.count("you have no key yet") == 1
    assert list(tmp_path.iterdir()) == []


def test_generate_from_arguments_file_and_stdin(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = ["--backbone", "tiny", "-D", "max_new_tokens=6"]
    (tmp_path / "p.txt").write_text("red fox\n\nblue whale\n")
    code, from_arguments, _ = call(capsys, "generate", "red fox", "blue whale", *tiny)
    assert code == 0
    assert len(from_arguments.splitlines()) == 2
    assert call(capsys, "generate", "--file", "p.txt", *tiny)[1] == from_arguments
    with (tmp_path / "p.txt").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert call(capsys, "generate", *tiny, "--batch-size", "1")[1] == from_arguments
    as_json = [
        json.loads(line) for line in call(capsys, "generate", "--file", "p.txt", *tiny, "--json")[1].splitlines()
    ]
    assert [record["text"] for record in as_json] == from_arguments.splitlines()
    assert call(capsys, "generate", "--file", "nowhere.txt", *tiny)[0] == 2
    assert call(capsys, "generate", "x", "--file", "p.txt", *tiny)[0] == 2


def test_generate_takes_the_scheme_of_its_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    tiny = ["--backbone", "tiny", "-D", "max_new_tokens=6", *PLUGIN]
    (tmp_path / "c.yaml").write_text("schemes: [demo]\ndatasets: [toy]\n")
    (tmp_path / "two.yaml").write_text("schemes: [demo, none]\n")
    marked = call(capsys, "generate", "red fox", *tiny, "--scheme", "demo")[1]
    unmarked = call(capsys, "generate", "red fox", *tiny, "--scheme", "none")[1]
    assert marked != unmarked
    assert call(capsys, "generate", "red fox", *tiny)[1] == unmarked
    assert call(capsys, "generate", "red fox", *tiny, "--config", "c.yaml")[1] == marked
    assert call(capsys, "generate", "red fox", *tiny, "--config", "c.yaml", "--scheme", "none")[1] == unmarked
    for several in (["--config", "two.yaml"], ["--scheme", "all"]):
        code, _, err = call(capsys, "generate", "red fox", *tiny, *several)
        assert (code, "one scheme on one backbone" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--scheme", "nnoe"], ["unknown scheme 'nnoe'", "did you mean 'none'"]),
        (["run"], ["no scheme is chosen"]),
        (["run", "--shceme", "none"], ["--scheme"]),
        (["rnu"], ["Did you mean run"]),
        (["run", "--scheme", "none", "--samples", "few"], ["--samples", "few"]),
        (["run", "--scheme", "none", "--samples", "0"], ["samples = 0"]),
        (["run", "--scheme", "none", "-D", "temprature=1"], ["did you mean 'temperature'"]),
        (["run", "--scheme", "none", "-B", "seed=1"], ["backbone 'mini' has no setting 'seed'"]),
        (["run", "--scheme", "none", "-S", "delta"], ["-S expects name=value"]),
        (["run", "--scheme", "none", "--key", "0" * 64, *PLUGIN, "--scheme", "demo"], ["env:VARIABLE or file:PATH"]),
        (["run", "--scheme", "none", "--plugin", "nowhere.py"], ["plugin file 'nowhere.py' does not exist"]),
        (["run", "--scheme", "none", "--attack", "identity", "--no-attacks"], ["exclude each other"]),
        (["validate", "nowhere.yaml"], ["cannot be read", "nowhere.yaml"]),
        (["key", "id"], ["the key cannot be read"]),
        (["key", "nwe"], ["nwe"]),
        (["ls", "shemes"], ["shemes"]),
    ],
)
def test_a_users_mistake_exits_2_without_a_traceback(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]
) -> None:
    code, out, err = call(capsys, *arguments)
    assert code == 2
    assert err.startswith("error: ")
    assert "Traceback" not in out + err
    assert "0" * 64 not in out + err
    for word in words:
        assert word in err


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Traceback" in call(capsys, "run", "--scheme", "nnoe", "--debug")[2]
    assert "Traceback" in call(capsys, "--debug", "run", "--scheme", "nnoe")[2]


def test_an_unexpected_error_asks_for_a_report(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("wmbench.host.Host.discover", fail)
    code, _, err = call(capsys, "ls")
    assert code == 1
    assert "ZeroDivisionError: oops" in err
    assert "--debug" in err


def test_ls_and_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = call(capsys, "ls", *PLUGIN)
    for word in ("none", "identity", "tiny-block", "toy", "for tests only", "cost: model"):
        assert word in out
    _, out, _ = call(capsys, "ls", "attacks")
    known = re.findall(r"^  (\S+) .*\[cost: (?:local|model|api); preserves: \w.*\]$", out, re.MULTILINE)
    assert len(known) == len(out.splitlines()) - 1, "of every attack its cost and what it preserves"
    assert "[cost: local; preserves: the order of the other words; ratio: 0.1, 0.2, 0.3, 0.4, 0.5]" in out
    _, out, _ = call(capsys, "ls", "schemes", *PLUGIN, "--settings")
    assert "delta" in out
    assert "identity" not in out
    assert "max_new_tokens" in call(capsys, "ls", "--settings")[1]
    listing = json.loads(call(capsys, "ls", "--json", *PLUGIN)[1])
    demo = next(scheme for scheme in listing["schemes"] if scheme["name"] == "demo")
    assert (demo["alg_id"], demo["plugin"], demo["status"]) == ("test.demo.1", "demo_plugin", "for tests only")
    assert demo["published_settings"]["tiny/toy"] == {"gamma": 0.25}
    with_schema = json.loads(call(capsys, "ls", "schemes", "--json", "--settings", *PLUGIN)[1])["schemes"]
    assert all("settings" not in scheme for scheme in [*listing["schemes"], *with_schema])
    schema = next(scheme for scheme in with_schema if scheme["name"] == "demo")["config_schema"]
    assert schema[0] == {"name": "delta", "default": 2.0, "help": ""}
    records = json.loads(call(capsys, "plugins", "--json", *PLUGIN)[1])
    assert {"runtime", "none", "attacks", "demo_plugin"} <= {record["name"] for record in records}
    assert "register_schemes" in call(capsys, "plugins")[1]


def test_validate_prints_the_plan(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = call(capsys, "validate", "--scheme", "demo", *PLUGIN, *TINY)
    assert code == 0
    assert "delta=1.5" in out
    assert "temperature=0.9" in out
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    plan = json.loads(call(capsys, "validate", "--scheme", "demo", *PLUGIN, *TINY, "--json")[1])
    assert plan["valid"]
    assert len(plan["key_id"]) == 12
    assert plan["runs"][0]["decoding"]["max_new_tokens"] == 8


def test_key_new_and_id(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "key", "new", "my.key")
    assert code == 0
    for source in ("file:my.key", "my.key", str(tmp_path / "my.key")):
        assert call(capsys, "key", "id", source)[1].strip() == out.split()[0]
    assert str(tmp_path / "absent.key") in call(capsys, "key", "id", str(tmp_path / "absent.key"))[2]
    shown = json.loads(call(capsys, "key", "id", "my.key", "--json")[1])
    assert shown == {"key_id": out.split()[0], "source": "file:my.key"}
    made = json.loads(call(capsys, "key", "new", "other.key", "--json")[1])
    assert made["file"] == "other.key"
    assert made["key_id"] == call(capsys, "key", "id", "other.key")[1].strip()
    assert (tmp_path / "my.key").read_text().strip() not in out
    assert call(capsys, "key", "new", "my.key")[0] == 2  # never overwritten


def test_commands_of_plugins(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, *PLUGIN, "greet")[:2] == (0, "hello\n")
    assert "greet" in call(capsys, *PLUGIN, "--help")[1]


def test_every_option_has_help_and_the_documentation_is_current() -> None:
    import click

    from wmbench.cli.app import _load, wmbench

    commands: list[click.Command] = [wmbench, *(_load(path) for path, _ in COMMANDS.values())]
    commands += [
        child for c in commands if isinstance(c, click.Group) and c is not wmbench for child in c.commands.values()
    ]
    for command in commands:
        assert command.help
        for parameter in command.params:
            assert not isinstance(parameter, click.Option) or parameter.help, (command.name, parameter.name)
    for name, (path, summary) in COMMANDS.items():
        assert (_load(path).help or "").startswith(summary.rstrip(".")), name
    for command_of_a_plugin in ("## wmbench lab\n", "## wmbench train-encoder\n"):
        assert command_of_a_plugin in cli_markdown()
    assert TARGET.read_text(encoding="utf-8") == cli_markdown(), "run `python -m wmbench.cli.docs`"
