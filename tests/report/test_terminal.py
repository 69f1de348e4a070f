"""The table that `wmbench run` and `wmbench report` end with."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.report.made_up import ATTACKS, SCHEMES
from wmbench.bench.table import print_summary


@pytest.fixture(scope="module")
def results(runs: Path) -> list[dict[str, Any]]:
    found = [json.loads((folder / "metrics.json").read_bytes()) for folder in sorted(runs.glob("*_finance_0*"))]
    return [{**metrics, "quality": {}} for metrics in found]


def printed(results: list[dict[str, Any]]) -> list[str]:
    """The lines of the table, without colours and footnotes."""
    out = io.StringIO()
    print_summary(results, out)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).partition("Rates with")[0].splitlines()


@pytest.mark.parametrize("columns", [80, 120])
def test_no_terminal_is_too_narrow_for_a_name_or_a_figure(
    results: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich then takes any stream for a terminal
    lines = printed(results)
    assert max(map(len, lines)) <= columns
    assert not any("\N{HORIZONTAL ELLIPSIS}" in line for line in lines)  # nothing is cut off
    names = {line.split("  ")[0].strip() or line.strip().split("  ")[0] for line in lines}
    assert {*SCHEMES, *ATTACKS} <= names


def test_narrow_terminals_get_percent(results: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    rate = results[0]["cells"][1]["tpr"]["0.01"]["threshold"]
    estimate, low, high = (rate[name] for name in ("estimate", "low", "high"))
    assert any(f"{estimate:.2f} [{low:.2f}, {high:.2f}]" in line for line in printed(results))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert any(f"{100 * estimate:.0f} [{100 * low:.0f},{100 * high:.0f}]" in line for line in printed(results))


def test_a_scheme_s_status_stands_below_the_table(results: list[dict[str, Any]]) -> None:
    """It is put in square brackets, which rich would take for markup."""
    out = io.StringIO()
    print_summary([{**results[0], "status": "a port, not verified"}], out)
    assert "denmark [a port, not verified]: kept" in out.getvalue()
