"""The command in this process, with what it printed; a crash is never an answer."""

from __future__ import annotations

import io
import json
import math
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wmbench.cli import main

KEY = "5a" * 32


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


def wmbench(*arguments: str) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*arguments])
    answer = Answer(code, out.getvalue(), err.getvalue())
    assert "Traceback" not in answer.err
    assert "unexpectedly" not in answer.err, answer.err
    if code:
        assert code in (2, 4), answer
        assert answer.err.rpartition("error: ")[2].strip(), answer
    return answer


def detect(source: Path, calibration: Path, *arguments: str) -> Answer:
    given = ["--calibration", str(calibration), "--alpha", "0.05", "--json"]
    return wmbench("detect", str(source), *given, *arguments)


def refused(source: Path, calibration: Path, *arguments: str, code: int = 2) -> str:
    answer = detect(source, calibration, *arguments)
    assert answer.code == code, answer
    return answer.err


def judged(texts: list[str], folder: Path, calibration: Path) -> list[dict[str, Any]]:
    """A verdict for every text, each of them sound."""
    file = folder / "texts.jsonl"
    file.write_text("".join(json.dumps(text) + "\n" for text in texts))
    answer = detect(file, calibration)
    assert answer.code == 0, answer.err
    assert len(answer.verdicts) == len(texts)
    for verdict in answer.verdicts:
        assert 0 < verdict["p_value"] <= 1
        assert math.isfinite(verdict["score"])
        assert verdict["detected"] == (verdict["p_value"] <= 0.05)
        for span in verdict["evidence"]:
            assert 0 <= span["start"] < span["end"]
            assert math.isfinite(span["weight"])
    return answer.verdicts
