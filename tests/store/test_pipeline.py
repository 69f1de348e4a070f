"""Runs: the same bytes at any batch size and after any interruption, and a status for every end."""

from __future__ import annotations

import io
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.store.helpers import final_files, resolve, run
from wmbench import hookimpl
from wmbench.bench.build import Builder
from wmbench.bench.jsonl import JsonlFile, TornLineWarning
from wmbench.bench.prompts import jsonl_prompts, toy_prompts
from wmbench.errors import ConfigError, IntegrityError, Interrupted, PluginError
from wmbench.observers import ProgressObserver, TraceObserver
from wmbench.types import Sample


class InterruptAfter:
    """An observer that presses Ctrl-C at a step."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    @hookimpl(wrapper=True)
    def decode_step(self, step: Any) -> Generator[None, Any, Any]:
        self.steps -= 1
        if self.steps < 0:
            raise KeyboardInterrupt
        return (yield)


def read_run(folder: str | Path) -> dict[str, Any]:
    return dict(json.loads((Path(folder) / "run.json").read_bytes()))


def test_a_run_writes_its_folder_and_the_second_finds_it_complete(tmp_path: Path) -> None:
    first = run(tmp_path)
    assert Path(first.folder).name.startswith("none_tiny_toy_")
    assert (first.status, first.already_complete) == ("success", False)
    before = {path: path.stat().st_mtime_ns for path in Path(first.folder).rglob("*.json*")}
    second = run(tmp_path)
    assert second.already_complete
    after = {path: path.stat().st_mtime_ns for path in Path(first.folder).rglob("*.json*")}
    assert after == before
    document = read_run(first.folder)
    assert document["status"] == "success"
    assert document["counts"]["samples"] == {"total": 6, "done": 6, "failed": 0}
    assert document["versions"]["plugin none"].startswith("wmbench ")
    records = JsonlFile(Path(first.folder) / "samples.jsonl").read()
    assert [record["id"] for record in records] == [f"toy-{i:04d}" for i in range(6)]
    assert all(not record["text"].startswith(record["prompt"]) for record in records)


def test_a_run_whose_prompts_carry_tuples_becomes_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [Sample("a", "w3 w4", meta={1: ("x", "y")})]  # type: ignore[dict-item]
    monkeypatch.setattr(Builder, "prompts", lambda self, plan: samples)
    run(tmp_path)
    assert run(tmp_path).already_complete


def test_files_do_not_depend_on_the_batch_size(tmp_path: Path) -> None:
    ragged = {"max_new_tokens": 24, "eos": "stop", "positions": "left_to_right", "temperature": 1.5}
    folders = []
    for size in (1, 3, 8):
        options = {"samples": 8, "batch_size": size, "decoding": ragged}
        folders.append(Path(run(tmp_path / str(size), options).folder))
    assert final_files(folders[0]) == final_files(folders[1]) == final_files(folders[2])
    finished = [r["id"] for r in JsonlFile(folders[2] / "timings.jsonl").read() if r["event"] == "sample"]
    assert finished != sorted(finished)  # some ended early, so the file had to be put in order


def test_interrupted_at_every_few_steps_and_resumed(tmp_path: Path) -> None:
    expected = final_files(run(tmp_path / "whole").folder)
    for steps in (1, 5, 13, 2, 11):  # a batch takes 12 steps: the third interruption keeps half of the samples
        with pytest.raises(Interrupted) as caught:
            run(tmp_path / "torn", observers=[InterruptAfter(steps)])
        assert caught.value.exit_code == 130
        assert read_run(str(caught.value.where))["status"] == "cancelled"
    notes: list[str] = []
    outcome = run(tmp_path / "torn", note=notes.append)
    assert notes == ["resuming: 3 of 6 samples are already there"]
    assert final_files(outcome.folder) == expected
    finished = [r["id"] for r in JsonlFile(Path(outcome.folder) / "timings.jsonl").read() if r["event"] == "sample"]
    assert len(finished) == len(set(finished)) == 6


def test_what_a_kill_left_half_written_is_removed(tmp_path: Path) -> None:
    folder = Path(run(tmp_path).folder)
    expected = final_files(folder)
    for name in (".run.json.0123abcd.tmp", "attacked/.identity.jsonl.0123abcd.tmp"):
        (folder / name).write_bytes(b"{")
    assert run(tmp_path).already_complete
    assert final_files(folder) == expected


def test_a_torn_sample_is_made_again(tmp_path: Path) -> None:
    folder = Path(run(tmp_path).folder)
    expected = final_files(folder)
    samples = folder / "samples.jsonl"
    samples.write_bytes(samples.read_bytes()[:-20])
    (folder / "attacked" / "identity.jsonl").unlink()
    with pytest.warns(TornLineWarning):
        run(tmp_path)
    assert final_files(folder) == expected


def test_a_torn_line_at_every_byte_offset_of_a_run(tmp_path: Path) -> None:
    tiny = {"samples": 2, "decoding": {"max_new_tokens": 2}}
    folder = Path(run(tmp_path, tiny).folder)
    expected = final_files(folder)
    for name in ("samples.jsonl", "attacked/identity.jsonl"):
        content = expected[name]
        for cut in range(content.rindex(b"\n", 0, -1) + 2, len(content)):
            (folder / name).write_bytes(content[:cut])
            with pytest.warns(TornLineWarning, match="torn last line"):
                run(tmp_path, tiny)
            assert final_files(folder) == expected


def test_complete_but_out_of_order_is_put_in_order(tmp_path: Path) -> None:
    """The process may be killed between the last sample and the ordering of the file."""
    folder = Path(run(tmp_path).folder)
    expected = final_files(folder)
    file = JsonlFile(folder / "samples.jsonl")
    file.rewrite(reversed(file.read()))
    run(tmp_path)
    assert final_files(folder) == expected


@pytest.mark.parametrize("foreign", ["stranger", "toy-0001"])
def test_an_unknown_or_repeated_sample_is_refused(tmp_path: Path, foreign: str) -> None:
    folder = Path(run(tmp_path).folder)
    JsonlFile(folder / "samples.jsonl").append({"id": foreign})
    with pytest.raises(IntegrityError, match=foreign):
        run(tmp_path)


def test_adding_an_attack_decodes_nothing_again(tmp_path: Path) -> None:
    folder = run(tmp_path, {"attacks": []}).folder
    samples = (Path(folder) / "samples.jsonl").stat()
    outcome = run(tmp_path, {"attacks": ["identity", "flaky:0.2"]})
    assert outcome.folder == folder
    assert (Path(folder) / "samples.jsonl").stat() == samples
    assert (outcome.status, outcome.counts["attacked/flaky-0.2"].failed) == ("partial", 2)
    assert outcome.failure_rate == pytest.approx(2 / 6)
    failed = JsonlFile(Path(folder) / "attacked" / "flaky-0.2.jsonl").read()[0]
    assert (failed["text"], failed["error"]) == (None, "no luck")
    run(tmp_path, {"attacks": []})
    assert set(read_run(folder)["attacks"]) == {"identity", "flaky-0.2"}  # their files are still there


def test_an_attack_file_of_other_settings_is_not_continued(tmp_path: Path) -> None:
    folder = Path(run(tmp_path, {"attacks": ["flaky"]}).folder)
    document = read_run(folder)
    document["attacks"]["flaky"]["settings"]["rate"] = 0.7  # as if an older version had another default
    (folder / "run.json").write_text(json.dumps(document))
    with pytest.raises(IntegrityError, match="other settings") as caught:
        run(tmp_path, {"attacks": ["flaky"]})
    assert "delete attacked/flaky.jsonl" in str(caught.value)
    (folder / "attacked" / "flaky.jsonl").unlink()
    run(tmp_path, {"attacks": ["flaky"]})
    assert read_run(folder)["attacks"]["flaky"]["settings"]["rate"] != 0.7


@pytest.mark.parametrize(("scheme", "message"), [("raising", "hook decode_step"), ("nonsense", "expected a Commit")])
def test_a_failing_plugin_is_named_and_leaves_status_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, message: str
) -> None:
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    with pytest.raises(PluginError) as caught:
        run(tmp_path, {"schemes": [scheme]})
    assert message in str(caught.value)
    assert "demo_plugin" in str(caught.value)
    document = read_run(next(tmp_path.iterdir()))
    assert (document["status"], document["error"]) == ("error", caught.value.message)


def test_another_key_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = []
    for secret in ("5a" * 32, "5b" * 32):
        monkeypatch.setenv("WMBENCH_KEY", secret)
        folders.append(run(tmp_path, {"schemes": ["demo"], "samples": 1}).folder)
    assert folders[0] != folders[1]
    assert read_run(folders[0])["key_id"] != read_run(folders[1])["key_id"]


def test_run_json_of_another_format_is_refused(tmp_path: Path) -> None:
    folder = Path(run(tmp_path).folder)
    (folder / "run.json").write_text('{"schema_version": 99}')
    with pytest.raises(IntegrityError, match="another format"):
        run(tmp_path)


def test_the_trace_tells_every_step(tmp_path: Path) -> None:
    folder = Path(run(tmp_path, trace=True).folder)
    steps = [json.loads(line) for line in (folder / "trace.jsonl").read_text().splitlines()]
    for sample in JsonlFile(folder / "samples.jsonl").read():
        mine = [step for step in steps if step["id"] == sample["id"]]
        assert [step["step"] for step in mine] == list(range(len(mine)))
        filled = {p: t for step in mine for p, t in zip(step["positions"], step["tokens"], strict=True)}
        assert [filled[i] for i in range(len(sample["token_ids"]))] == sample["token_ids"]
        assert mine[-1]["forwards"] == sample["cost"]["forward_rows"]
        assert all(0 <= entropy < 5 for step in mine for entropy in step["entropies"])
    assert final_files(folder) == final_files(run(tmp_path / "untraced").folder)


def test_the_trace_of_a_run_that_is_complete(tmp_path: Path) -> None:
    folder = Path(run(tmp_path).folder)
    notes: list[str] = []
    assert run(tmp_path, trace=True, note=notes.append).already_complete
    assert ["no trace is written" in note for note in notes] == [True]
    assert not (folder / "trace.jsonl").exists()


def test_the_trace_is_on_disk_after_every_step(tmp_path: Path) -> None:
    lengths: list[int] = []

    class Reader:
        @hookimpl(wrapper=True)
        def decode_step(self, step: Any) -> Generator[None, Any, Any]:
            commit = yield
            trace = next(tmp_path.glob("*/trace.jsonl"))
            lengths.append(trace.read_bytes().count(b"\n"))
            return commit

    run(tmp_path, {"samples": 1}, trace=True, observers=[Reader()])
    assert lengths[0] in (0, 1)  # whichever observer comes first
    assert lengths == list(range(lengths[0], lengths[0] + 12))


def test_a_prompt_that_is_too_long_is_found_before_decoding(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "one"}\n' + json.dumps({"prompt": "w7 " * 5000, "id": "novel"}))
    with pytest.raises(ConfigError, match="sample novel: prompt and answer need") as caught:
        run(tmp_path / "runs", {"datasets": [f"jsonl:{file}"], "batch_size": 1})
    assert "max_new_tokens" in str(caught.value.hint)
    assert not (tmp_path / "runs").exists()


def test_a_trace_cut_off_by_a_kill_goes_on_in_a_line_of_its_own(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text('{"id": 1}\n{"id"')
    with TraceObserver(trace):
        assert trace.read_text() == '{"id": 1}\n'


def test_timings_cut_off_by_a_kill_go_on_in_a_line_of_their_own(tmp_path: Path) -> None:
    folder = Path(run(tmp_path).folder)
    timings = folder / "timings.jsonl"
    whole = timings.read_bytes()
    timings.write_bytes(whole + b'{"event":"sam')
    (folder / "attacked" / "identity.jsonl").unlink()
    run(tmp_path)
    assert timings.read_bytes().startswith(whole)
    added = JsonlFile(timings).read()[whole.count(b"\n") :]
    assert [record["event"] for record in added] == ["invocation", "attack"]


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
def test_progress_on_a_terminal_and_in_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("TERM", kind)
    log = io.StringIO()
    run(tmp_path / "log", progress=ProgressObserver(log, line_seconds=0))
    assert "tokens/s" in log.getvalue()
    assert "s/token" in log.getvalue()
    assert "left" in log.getvalue()
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    run(tmp_path / "terminal", progress=ProgressObserver(terminal))
    assert "none on tiny" in terminal.getvalue()


def test_prompt_files(tmp_path: Path) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "one", "id": 7, "topic": "t"}\n\n{"prompt": "two"}\n')
    samples = jsonl_prompts(str(file), None)
    assert [(s.id, s.prompt, dict(s.meta)) for s in samples] == [
        ("7", "one", {"topic": "t"}),
        ("jsonl-0001", "two", {}),
    ]
    assert len(jsonl_prompts(str(file), 1)) == 1
    assert len(toy_prompts("", None)) == 20
    outcome = run(tmp_path, {"datasets": [f"jsonl:{file}"], "attacks": []})
    assert outcome.counts["samples"].total == 2
    file.write_text('{"prompt": "one", "id": "q"}\n{"prompt": "two", "id": "q~1"}\n')
    with pytest.raises(ConfigError, match="'q~1' is that of a retry"):
        run(tmp_path, {"datasets": [f"jsonl:{file}"], "attacks": []})
    file.write_text('{"prompt": "one", "id": "q\\u0000"}\n')
    with pytest.raises(ConfigError, match="ends in a zero character"):
        run(tmp_path, {"datasets": [f"jsonl:{file}"], "attacks": []})


@pytest.mark.parametrize(
    ("content", "message", "line"),
    [
        ('{"prompt": "a"}\n{"prompt', "not JSON", ":2"),
        ('{"prompt": "a"}\n{"prmpt": "b"}', "no prompt", ":2"),
        ('{"prompt": " "}', "no prompt", ":1"),
        ("[1]", "not one JSON object", ":1"),
        ('{"prompt": "a", "deep": ' + "[" * 100_000, "not JSON", ":1"),
        ('{"prompt": "a", "id": 1}\n{"prompt": "b", "id": "1"}', "used twice", ":1 and 2"),
        ('{"prompt": "a", "id": [1]}', "neither text nor a number", ":1"),
        ('{"prompt": "a"}\n{"prompt": "b", "score": NaN}', "not JSON", ":2"),
        ("", "holds no prompt", ""),
    ],
)
def test_a_bad_prompt_file_names_the_line(tmp_path: Path, content: str, message: str, line: str) -> None:
    file = tmp_path / "prompts.jsonl"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        jsonl_prompts(str(file), None)
    assert caught.value.where == f"{file}{line}"


def test_plans_name_every_plugin() -> None:
    assert [plugin.name for plugin in resolve({"schemes": ["demo"]}).plugins] == ["attacks", "demo_plugin", "runtime"]
