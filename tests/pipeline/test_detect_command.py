"""`wmbench calibrate` and `wmbench detect`: files in, p-values out, and nothing judged by the wrong calibration."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pipeline.helpers import KEY, PLUGIN, run
from wmbench.bench.calibrating import recorded_settings, standing
from wmbench.bench.inputs import read_inputs
from wmbench.bench.jsonl import JsonlFile
from wmbench.cli import main
from wmbench.cli.evidence import coloured
from wmbench.detection import Calibration
from wmbench.errors import ConfigError
from wmbench.lab.codec import lab_codec
from wmbench.report.evidence import printable, spans
from wmbench.types import Evidence

SMALL = ["--nulls", "salad", "--calibration-texts", "100", "--heldout-texts", "50", "-D", "max_new_tokens=24"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with a calibration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMBENCH_KEY", KEY)
        return Path(run(tmp_path_factory.mktemp("runs"), attacks=[]).folder)


def detect(finished: Path, *arguments: str) -> int:
    calibration = str(finished / "calibration.npz")
    return main(["detect", *arguments, "--plugin", str(PLUGIN), "--calibration", calibration])


def detected_json(capsys: pytest.CaptureFixture[str], finished: Path, *arguments: str) -> list[dict[str, Any]]:
    assert detect(finished, *arguments, "--json") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_detect_says_what_the_run_says(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = detected_json(capsys, finished, str(finished / "samples.jsonl"))
    expected = JsonlFile(finished / "verdicts" / "samples.jsonl").read()
    assert [(v["p_value"], v["score"], v["detected"]) for v in found] == [
        (v["p"], v["score"], v["detected"]) for v in expected
    ]
    assert found[0]["name"].endswith("samples.jsonl:toy-0000")
    assert len(found[0]["evidence"]) == 24
    assert found[0]["warnings"] == []


def test_a_verdict_says_what_it_rests_on(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("w3 w4 w5 " * 6)
    (tmp_path / "b.txt").write_text("w6 w7 w8 " * 6)
    nulls = Calibration.load(finished / "calibration.npz").metadata["nulls"]
    found, _ = detected_json(capsys, finished, str(tmp_path))
    assert set(found) == {
        "name", "detected", "p_value", "score", "alpha", "view", "method", "scheme", "key_id", "calibration", "tokens",
        "details", "evidence", "warnings",
    }  # fmt: skip
    assert (found["scheme"], found["tokens"]) == ("green", 18)
    assert found["calibration"] == {"nulls": "salad", "digest": nulls["digest"], "n": 100, "tokens": [12, 24]}
    page = tmp_path / "page.html"
    assert detect(finished, str(tmp_path), "--html", str(page)) == 0
    sentence = f"green, key {found['key_id']}, calibrated on 100 texts of salad, 12-24 tokens."
    output = capsys.readouterr()
    assert output.err.splitlines() == [sentence, f"page: {page}"]
    assert sentence not in output.out
    assert sentence in page.read_text(encoding="utf-8")


def test_what_is_not_known_of_a_calibration_is_left_out() -> None:
    assert standing("green", None, Calibration(np.zeros((3, 1)), ("a",))) == (
        "green, no secret key, calibrated on 3 texts."
    )
    assert standing("green", "0123456789ab", None) == (
        "green, key 0123456789ab, no calibration: p-values are by the scheme's own law."
    )


def test_what_is_no_text_is_judged_with_a_warning(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a_empty.txt").write_bytes(b" \n")
    (tmp_path / "b_paper.txt").write_bytes(b"%PDF-1.7 " + bytes(range(128, 256)))
    (tmp_path / "c_plain.txt").write_text("w3 w4 w5 and one \ufffd in " + "w6 " * 200)
    empty, paper, plain = (found["warnings"] for found in detected_json(capsys, finished, str(tmp_path)))
    assert empty[0] == "there is no text in it"
    assert paper[0].startswith("it does not look like text")
    assert not any("look like text" in warning or "no text" in warning for warning in plain)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (bytes(range(256)) * 4, "no UTF-8"),
        ("Save a little every month. ".encode("utf-16") * 20, "zeros"),
        (b"PK\x03\x04" + b" some words in an archive" * 20, "an archive"),
    ],
)
def test_what_is_certainly_no_text_is_refused(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, why: str
) -> None:
    file = tmp_path / "picture.txt"
    file.write_bytes(content)
    assert detect(finished, str(file)) == 2
    output = capsys.readouterr()
    assert output.out == ""
    for told in ("this is not a text", f"where: {file}", why, "next step"):
        assert told in output.err


def test_old_encodings_and_odd_characters_are_texts(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "latin.txt").write_bytes(("Der Fluß fließt über die Brücke. " * 40).encode("latin-1"))
    (tmp_path / "zero.txt").write_bytes(b"w3 w4 w5 \0 " * 5 + b"w6 " * 400)
    assert len(detected_json(capsys, finished, str(tmp_path))) == 2


def test_a_second_calibration_is_no_text(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a shell makes of runs/green_*/calibration.npz."""
    (tmp_path / "text.txt").write_text("w3 w4 w5")
    other = tmp_path / "calibration.npz"
    other.write_bytes((finished / "calibration.npz").read_bytes())
    assert detect(finished, str(tmp_path / "text.txt"), str(other)) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert "a calibration was given as a text" in output.err
    assert f"where: {other}" in output.err
    assert "name one calibration" in output.err


def test_a_calibration_of_its_own_equals_the_run_s(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "green.npz"
    arguments = ["--scheme", "green", "--backbone", "tiny", "--out", str(out), *SMALL, "--plugin", str(PLUGIN)]
    for _ in range(2):  # one of ours may be made again
        assert main(["calibrate", *arguments, "--output", str(tmp_path / "runs")]) == 0
    assert out.read_bytes() == (finished / "calibration.npz").read_bytes()
    assert Calibration.load(out).metadata["nulls"]["tokens"] == [12, 24]


def test_calibrate_refuses_too_few_texts_before_drawing_any(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--scheme", "wide", "--backbone", "tiny", "--out", str(tmp_path / "c.npz"), *SMALL]
    code = main(["calibrate", *arguments, "--plugin", str(PLUGIN), "--output", str(tmp_path / "runs")])
    assert (code, list(tmp_path.iterdir())) == (2, [])
    assert "399" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "difference"),
    [
        (["-S", "delta=1"], "setting delta: calibrated 4.0, now 1.0"),
        (["--scheme", "fixed"], "scheme: calibrated green, now fixed"),
        (["--backbone", "tiny", "-B", "tokenizer_size=50"], "tokenizer: calibrated toy-61, now toy-50"),
        (["--key", "env:OTHER_KEY"], "key id: calibrated"),
    ],
)
def test_a_foreign_calibration_is_refused_by_name(
    finished: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    difference: str,
) -> None:
    monkeypatch.setenv("OTHER_KEY", "5b" * 32)
    assert detect(finished, str(finished / "samples.jsonl"), *arguments) == 2
    errors = capsys.readouterr().err
    assert "made for another detector" in errors
    assert difference in errors
    if "--scheme" in arguments:
        assert f"why: {difference}\n" in errors, "its settings are no news"


def test_the_calibration_s_own_scheme_in_another_spelling() -> None:
    made = Calibration(np.zeros((3, 1)), ("a",), {"scheme": {"name": "dlm_kgw", "settings": {"delta": 3.0}}})
    assert recorded_settings(made, "dlm-kgw") == recorded_settings(made)
    assert recorded_settings(made, "umr") == {"schemes": ["umr"]}


def test_no_key_is_made_up_for_detection(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WMBENCH_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert detect(finished, str(finished / "samples.jsonl")) == 2
    assert "no key to look for" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_damaged_calibrations_and_levels_out_of_reach(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("w3 w4")
    broken = tmp_path / "broken.npz"
    broken.write_bytes((finished / "calibration.npz").read_bytes()[:-30])
    assert main(["detect", str(text), "--calibration", str(broken), "--plugin", str(PLUGIN)]) == 4
    assert detect(finished, str(text), "--alpha", "0.001") == 2
    assert "at least 999" in capsys.readouterr().err
    assert main(["detect", str(text)]) == 2


def test_files_folders_and_standard_input(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.txt").write_text("w3 w4 w5")
    (tmp_path / "b.jsonl").write_text('{"id": "x", "text": "w6"}\n\n"w7 w8"\n{"id": "failed", "text": null}\n')
    (tmp_path / "ignored.npz").write_bytes(b"w9")
    found = detected_json(capsys, finished, str(tmp_path))
    names = [v["name"].removeprefix(str(tmp_path)) for v in found]
    assert names == ["/b.jsonl:x", "/b.jsonl:3", "/deep/a.txt"]
    assert "has 1 token," in found[0]["warnings"][0]
    assert "3 tokens" in found[2]["warnings"][0]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"w3 w4 \xff\x00")))
    assert detected_json(capsys, finished, "-")[0]["name"] == "standard input"


@pytest.mark.parametrize(("arguments", "message"), [([], "Give a file"), (["-"], "standard input is closed")])
def test_a_closed_standard_input(
    finished: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.setattr(sys, "stdin", None)  # what Python makes of `<&-`
    assert detect(finished, *arguments) == 2
    assert message in capsys.readouterr().err


def test_a_file_of_many_texts_is_named_once(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("w3 w4 w5")
    (tmp_path / "b.jsonl").write_text('{"id": "x", "text": "w6"}\n"w7 w8"\n')
    assert detect(finished, str(tmp_path)) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "warning" not in line]
    first, heading, *others = lines
    assert first.startswith(f"{tmp_path}/a.txt: ")
    assert heading == f"{tmp_path}/b.jsonl"
    assert [line.partition(":")[0] for line in others] == ["  x", "  2"]


def test_the_attacks_of_a_text_are_told_apart(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In a file as `wmbench attack --out` writes it."""
    attacked = [{"id": "x", "attack": name, "text": "w6 w7", "error": None} for name in ("delete-0.2", "crop")]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in attacked))
    page = tmp_path / "page.html"
    assert detect(finished, str(tmp_path / "a.jsonl"), "--html", str(page)) == 0
    found = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines() if "watermark found" in line]
    assert found == ["  x, delete-0.2", "  x, crop"]
    assert "a.jsonl:x, crop" in page.read_text()
    verdicts = detected_json(capsys, finished, str(tmp_path / "a.jsonl"))
    assert [(v["name"].rpartition(":")[2], v["attack"]) for v in verdicts] == [("x", "delete-0.2"), ("x", "crop")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.jsonl", "{", "not JSON"),
        ("t.jsonl", "[1]", "no text"),
        ("t.jsonl", '{"text": 3}', "no text"),
        ("t.jsonl", "[" * 100_000, "not JSON"),
        ("none", None, "cannot be read"),
        ("nu\0l", None, "cannot be read"),
    ],
)
def test_unreadable_inputs_are_named(tmp_path: Path, name: str, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=message):
        list(read_inputs([str(tmp_path / name)]))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_judged(finished: Path, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "any.txt"
    file.write_bytes(content)
    assert detect(finished, str(file)) == 0


def test_detection_imports_no_torch(tmp_path: Path) -> None:
    """Calibrate and detect with a backbone that has only a tokenizer."""
    text = tmp_path / "text.txt"
    text.write_text("Save a little every month. " * 40)
    code = f"""
import sys
from wmbench.cli import main
common = ["--plugin", {str(PLUGIN)!r}]
small = ["--nulls", "salad", "--calibration-texts", "20", "--heldout-texts", "5", "--alpha", "0.05"]
made = ["--scheme", "green", "--backbone", "tokens-only", "--out", "c.npz", "-D", "max_new_tokens=40"]
assert main(["calibrate", *made, *small, *common]) == 0
assert main(["detect", "text.txt", "--calibration", "c.npz", "--alpha", "0.05", *common]) == 0
assert "torch" not in sys.modules
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "watermark found at alpha = 0.05" in result.stdout


def test_schemes_of_token_ids_are_detected_without_torch(tmp_path: Path) -> None:
    """With the embedded backbone, of which no more than the tokenizer is read."""
    text = tmp_path / "text.txt"
    text.write_text("Save a little every month. " * 6)
    code = """
import sys
from wmbench.cli import main
own_law = {
    "dlm_kgw": ["p_value=exact"],
    "patternmark": ["p_value=exact"],
    "dgmark": ["p_value=normal", "statistic=global"],
    "umr": ["p_value=normal"],
}
for scheme, settings in own_law.items():
    chosen = [word for setting in settings for word in ("-S", setting)]
    assert main(["detect", "text.txt", "--scheme", scheme, "--backbone", "mini", *chosen]) == 0
    assert "torch" not in sys.modules, scheme
"""
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


# --- evidence on the screen ----------------------------------------------------------------------------------------


def test_spans_cover_the_text_in_order() -> None:
    codec = lab_codec()
    text = "Borrowers should compare fees, naïve or not. Then they decide."
    ids = codec.encode(text)
    evidence = [Evidence(4, 8, -1.0), Evidence(0, 3, 2.0), Evidence(2, 5, 9.0), Evidence(8, 500, 0.5)]
    pieces = spans(ids, evidence, codec)
    assert "".join(piece for piece, _ in pieces) == codec.decode(ids)
    assert [item.weight for _, item in pieces if item] == [2.0, -1.0, 0.5]  # the overlapping one is left out
    assert pieces[0][0] == codec.decode(ids[:3])


def test_a_text_cannot_steer_the_terminal() -> None:
    hostile = "\x1b[31mred\x1b]0;title\x07 \u202e\ud800 <script> [bold]"
    shown = coloured([(hostile, Evidence(0, 1, 1.0))]).plain
    assert not re.search(r"[\x00-\x08\x0b-\x1f\u202e\ud800]", shown)
    assert "<script> [bold]" in shown
    assert printable("a\nb\tc") == "a\nb\tc"
