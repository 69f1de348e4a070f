"""The table that `wmbench run` and `wmbench report` end with."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.report.made_up import ATTACKS, SCHEMES
from wmbench.bench.measure import FEW_TEXTS
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


def footnotes(results: list[dict[str, Any]]) -> list[str]:
    out = io.StringIO()
    print_summary(results, out)
    return out.getvalue().partition("Rates with")[2].splitlines()


def test_runs_of_one_scheme_are_numbered_as_in_the_report(results: list[dict[str, Any]]) -> None:
    out = io.StringIO()
    print_summary([results[0], results[1], results[0]], out)
    lines = out.getvalue().splitlines()
    assert [line.strip() for line in lines if re.fullmatch(r" denmark.*", line)] == ["denmark (1)", "denmark (2)"]
    assert sum(line.startswith("denmark (2): kept") for line in lines) == 1


def test_what_holds_for_several_runs_is_said_once_with_its_level(results: list[dict[str, Any]]) -> None:
    why = {"why": "no threshold: 10 of 1,000", "hint": "use more"}
    never = {"why": "never reached", "hint": "calibrate with more"}
    one_key = {"n": 1, "families": []}
    blind = {**results[0], "unresolved": {"0.005": never}, "tied": {"0.005": why, "0.01": why}, "wrong_keys": one_key}
    alone = footnotes([blind])
    assert "* at 0.5% FPR: never reached; no threshold: 10 of 1,000: calibrate with more; use more" in alone
    assert "* at 1.0% FPR: no threshold: 10 of 1,000: use more" in alone
    both = footnotes([blind, {**blind, "scheme": "other"}, {**results[1], "wrong_keys": one_key}])
    assert sum("one wrong key shifts" in line for line in both) == 1
    assert any(line.startswith("* denmark, other: at 1.0% FPR: ") for line in both)
    tied = {**blind, "unresolved": {}}
    assert "* at 0.5% and 1.0% FPR: no threshold: 10 of 1,000: use more" in footnotes([tied])


@pytest.mark.parametrize(
    ("keys", "clean", "marked", "told"),
    [
        (3, (0.5, 0.4, 0.6), (0.53, 0.51, 0.55), ["0.500 [0.400, 0.600]; ", "to judge a control takes 25 keys"]),
        (25, (0.49, 0.47, 0.51), (0.5, 0.4, 0.6), ["], within 0.5 +- 0.05; ", "its interval holds 0.5"]),
        (25, (0.46, 0.34, 0.55), (0.53, 0.51, 0.55), ["is within 0.5 +- 0.05, its interval [0.340, 0.550] is not",
                                                      "does NOT hold 0.5"]),
        (25, (0.44, 0.43, 0.45), (0.5, 0.4, 0.6), ["NOT within 0.5 +- 0.05", "its interval holds 0.5"]),
    ],
)  # fmt: skip
def test_controls_are_judged_by_their_interval_and_by_25_keys(
    results: list[dict[str, Any]],
    keys: int,
    clean: tuple[float, ...],
    marked: tuple[float, ...],
    told: list[str],
) -> None:
    areas = [dict(zip(("estimate", "low", "high"), area, strict=True)) for area in (clean, marked)]
    wrong = {"n": keys, "families": [], "clean_auc": areas[0], "samples_auc": areas[1]}
    (line,) = [line for line in footnotes([{**results[0], "wrong_keys": wrong}]) if "controls:" in line]
    assert all(part in line for part in told)
    assert ("holds" in line or "NOT" in line or "within" in line) == (keys == 25)


def test_few_texts_are_named(results: list[dict[str, Any]]) -> None:
    few = {**results[0], "cells": [{**results[0]["cells"][0], "n": 9}]}
    assert FEW_TEXTS in footnotes([few])
    assert FEW_TEXTS not in footnotes(results)
