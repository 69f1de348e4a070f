"""`wmbench report`, `view` and `detect --html` on a run of the real pipeline."""

from __future__ import annotations

import http.client
import json
import threading
from pathlib import Path

import pytest

from tests.pipeline.helpers import KEY, PLUGIN, run_all
from wmbench.cli import main
from wmbench.host import Host
from wmbench.report.document import Document
from wmbench.report.gather import gather
from wmbench.report.server import report_server

OPTIONS = ["--plugin", str(PLUGIN)]


@pytest.fixture(scope="module")
def real_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMBENCH_KEY", KEY)
        run_all(folder, schemes=["green", "none"])
    return folder


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WMBENCH_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_report_writes_all_forms_and_prints_the_table(
    real_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMBENCH_KEY", KEY)
    before = {path: path.stat().st_mtime_ns for path in real_runs.rglob("*")}
    assert main(["report", str(real_runs), "--out", str(tmp_path / "out"), *OPTIONS]) == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        f"report.{f}" for f in ("html", "json", "csv", "tex", "md")
    }
    assert {path: path.stat().st_mtime_ns for path in real_runs.rglob("*")} == before  # runs are only read
    shown = capsys.readouterr().out
    assert "unattacked" in shown
    assert "report.html" in shown
    assert KEY not in "".join(path.read_text() for path in (tmp_path / "out").iterdir())
    document = Document.model_validate_json((tmp_path / "out" / "report.json").read_bytes())
    (green,) = document.measured
    assert green.no_evidence == ""
    kinds = {passage.kind: passage for passage in green.examples[0].passages}
    assert list(kinds) == ["clean", "marked", "identity"]
    weights = [piece.weight for piece in kinds["marked"].pieces]
    assert len(weights) == 24
    assert sum(weight for weight in weights if weight is not None) > 0
    assert kinds["marked"].pieces == kinds["identity"].pieces
    assert kinds["marked"].p is not None


def test_the_key_may_be_named_and_another_is_refused(
    real_runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", KEY)
    monkeypatch.setenv("FOREIGN", "5b" * 32)
    reasons, told = [], []
    for options in (["--key", "env:MINE"], ["--key", "env:FOREIGN"], [], ["--key", "env:MINE", "--no-evidence"]):
        assert main(["report", str(real_runs), "--json", "--texts", "1", *options, *OPTIONS]) == 0
        shown = capsys.readouterr()
        told.append("shown without evidence" in shown.err)
        document = Document.model_validate_json(shown.out)
        reasons.append(document.measured[0].no_evidence)
    assert reasons[0] == ""
    assert "key id" in reasons[1]
    assert "no key" in reasons[2]
    assert told == [False, True, False, False]  # who names a key expects it to fit
    assert reasons[3] == "no evidence was asked for"


def test_all_texts_or_some_of_them(real_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for number in ("0", "1", "all"):
        assert main(["report", str(real_runs), "--json", "--texts", number, "--no-evidence", *OPTIONS]) == 0
        printed = capsys.readouterr().out
        assert printed.count("\n") == 1  # indentation would make the evidence several times as large
        shown[number] = len(Document.model_validate_json(printed).measured[0].examples)
    assert shown == {"0": 0, "1": 1, "all": 4}
    assert main(["report", str(real_runs), "--texts", "many", *OPTIONS]) == 2
    assert "--texts" in capsys.readouterr().err
    assert (
        main(["report", str(real_runs), "--texts", "3", "--out", str(tmp_path / "out"), "--no-evidence", *OPTIONS]) == 0
    )
    assert "the first 3 of 4 prompts of each run" in (tmp_path / "out" / "report.html").read_text()


def test_a_large_page_is_announced(
    real_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, is_large in ((30, False), (0.001, True)):
        monkeypatch.setattr("wmbench.cli.report.LARGE_PAGE", limit)
        assert main(["report", str(real_runs), "--out", str(tmp_path / "out"), "--no-evidence", *OPTIONS]) == 0
        assert ("--texts N shows fewer" in capsys.readouterr().err) == is_large


def test_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--schema"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "wmbench report"


def test_view_serves_this_machine_only(real_runs: Path) -> None:
    document = gather([real_runs], texts=0)
    with report_server(document) as server:
        assert server.server_address[0] == "127.0.0.1"
        threading.Thread(target=server.serve_forever, daemon=True).start()

        def get(path: str, host: str = "localhost:1") -> tuple[int, bytes]:
            connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
            connection.request("GET", path, headers={"Host": host})
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            return answer.status, content

        status, page = get("/")
        assert status == 200
        assert page.startswith(b"<!doctype html>")
        assert json.loads(get("/report.json")[1])["runs"]
        assert get("/report.csv")[0] == get("/report.tex")[0] == 200
        assert get("/../run.json")[0] == get("/report")[0] == 404
        assert get("/", "127.0.0.1")[0] == 200  # port 80 goes without saying
        # A name that leads here is not this machine.
        assert get("/", "evil.example:80")[0] == get("/", "evil.example")[0] == 421
        server.shutdown()


def test_a_run_without_results_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "no such run folder" in capsys.readouterr().err
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text('{"schema_version": 1, "scheme": {"key_use": "secret"}}')
    assert main(["report", str(tmp_path / "run")]) == 2
    assert "this run has no results" in capsys.readouterr().err


def test_detect_writes_a_page(
    real_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMBENCH_KEY", KEY)
    (green,) = real_runs.glob("green_*")
    page = tmp_path / "pages" / "evidence.html"
    source = tmp_path / "in.jsonl"
    marked = json.loads((green / "samples.jsonl").read_text().splitlines()[0])["text"]
    source.write_text("".join(json.dumps(text) + "\n" for text in (marked, "w3 <script>alert(1)</script> w4", "")))
    arguments = ["detect", str(source), "--calibration", str(green / "calibration.npz"), "--html", str(page), *OPTIONS]
    assert main(arguments) == 0
    assert str(page) in capsys.readouterr().err
    html = page.read_text()
    assert html.count("<article") == 3
    assert html.count("<mark") >= 24
    assert "<script" not in html
    assert 'class="shade-5"' in html


def test_run_ends_in_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMBENCH_KEY", KEY)
    words = "--scheme green --backbone tiny --dataset toy --samples 2 --no-attacks --nulls salad -D max_new_tokens=24"
    sizes = ["--calibration-texts", "100", "--heldout-texts", "20", "--output", str(tmp_path / "runs")]
    assert main(["run", *words.split(), *sizes, *OPTIONS]) == 0
    assert "report.html" in capsys.readouterr().out
    found = gather([tmp_path / "runs"], host=Host.discover([PLUGIN]))
    assert found.measured[0].no_evidence == ""
    reports = tmp_path / "runs" / "reports"
    assert (reports / "latest" / "report.html").read_text().startswith("<!doctype html>")

    # Another run has a report of its own; that of the first one is still there.
    (first,) = (tmp_path / "runs").glob("green_*")
    assert main(["run", *words.split(), *sizes, *OPTIONS, "--scheme", "none", "--seed", "1"]) == 0
    alone, both = json.loads((reports / first.name / "report.json").read_text()), (reports / "latest").resolve()
    assert [run["name"] for run in alone["runs"]] == [first.name]
    assert both.name.startswith("green_none_")
    shown = capsys.readouterr().out
    assert str(both / "report.html") in shown

    # Read again by hand: the same runs have the same place, and the reports beside them are no runs.
    runs = [str(path) for path in (tmp_path / "runs").iterdir() if path.name != ".cache"]
    pair = [path for path in runs if path not in (str(first), str(reports))]
    for chosen, name in (([str(first)], first.name), (pair, both.name), ([str(tmp_path / "runs")], "all")):
        assert main(["report", *reversed(chosen), "--no-evidence", *OPTIONS]) == 0
        assert (reports / "latest").resolve().name == name
    assert main(["report", *runs, "--json", "--no-evidence", *OPTIONS]) == 0
