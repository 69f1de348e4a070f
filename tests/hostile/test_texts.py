"""Whatever the text, `wmbench detect` gives a verdict: 10,000 odd ones in the slow test, some hundred here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.hostile.commands import detect, judged, wmbench
from tests.hostile.conftest import SCHEMES
from tests.hostile.texts import BY_HAND, HUGE, texts

AT_ONCE = 10
MANY = {"deadline": None, "database": None, "derandomize": True, "phases": [Phase.explicit, Phase.generate]}
FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
SECONDS_TO_HANG = 900
"""Not a measure of speed: after so long a command is not slow, it hangs."""

batches = st.lists(texts, min_size=AT_ONCE, max_size=AT_ONCE)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_texts_made_by_hand(scheme: str, calibrations: dict[str, Path], tmp_path: Path) -> None:
    judged(list(BY_HAND.values()), tmp_path, calibrations[scheme])


@settings(max_examples=40, suppress_health_check=FIXTURES, **MANY)  # type: ignore[arg-type]
@given(batch=batches, scheme=st.sampled_from(sorted(SCHEMES)))
def test_some_hundred_texts(batch: list[str], scheme: str, calibrations: dict[str, Path], tmp_path: Path) -> None:
    judged(batch, tmp_path, calibrations[scheme])


@pytest.mark.slow
@settings(max_examples=10_000 // AT_ONCE, suppress_health_check=FIXTURES, **MANY)  # type: ignore[arg-type]
@given(batch=batches, scheme=st.sampled_from(sorted(SCHEMES)))
def test_ten_thousand_texts(batch: list[str], scheme: str, calibrations: dict[str, Path], tmp_path: Path) -> None:
    judged(batch, tmp_path, calibrations[scheme])


@settings(max_examples=20, suppress_health_check=FIXTURES, **MANY)  # type: ignore[arg-type]
@given(content=st.binary(max_size=400), scheme=st.sampled_from(sorted(SCHEMES)))
def test_a_file_of_any_bytes_is_a_text(
    content: bytes, scheme: str, calibrations: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "any.txt"
    file.write_bytes(content)
    assert detect(file, calibrations[scheme]).code == 0


@settings(max_examples=20, suppress_health_check=FIXTURES, **MANY)  # type: ignore[arg-type]
@given(content=st.binary(max_size=100) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace")))
def test_a_list_of_any_bytes_is_judged_or_refused(
    content: bytes, calibrations: dict[str, Path], tmp_path: Path
) -> None:
    file = tmp_path / "any.jsonl"
    file.write_bytes(content)
    answer = detect(file, calibrations["dlm_kgw"])
    assert answer.code == 0 or str(file) in answer.err


def test_pages_and_plain_output_of_texts_made_by_hand(calibrations: dict[str, Path], tmp_path: Path) -> None:
    files = []
    for number, text in enumerate(BY_HAND.values()):
        files.append(tmp_path / f"{number}.txt")
        files[-1].write_bytes(text.encode("utf-8", "surrogatepass"))
    files.append(tmp_path / os.fsdecode(b"no unicode \xff.txt"))
    files[-1].write_text("save a little")
    page = tmp_path / "page.html"
    given_options = ["--calibration", str(calibrations["denmark"]), "--alpha", "0.05", "--html", str(page)]
    answer = wmbench("detect", *map(str, files), *given_options)
    assert answer.code == 0
    assert answer.out.count("watermark found") == len(files)
    assert "<script>alert(" not in page.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("name", HUGE)
def test_a_megabyte(name: str, scheme: str, calibrations: dict[str, Path], tmp_path: Path) -> None:
    """In a process of its own, which is ended should it hang."""
    file = tmp_path / "huge.txt"
    file.write_text(HUGE[name], encoding="utf-8")
    command = [sys.executable, "-m", "wmbench.cli", "detect", str(file), "--calibration", str(calibrations[scheme])]
    done = subprocess.run(
        [*command, "--alpha", "0.05"], capture_output=True, text=True, check=False, timeout=SECONDS_TO_HANG
    )
    assert done.returncode == 0, done.stderr
    assert "watermark found" in done.stdout
