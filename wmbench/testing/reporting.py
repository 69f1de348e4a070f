"""A pytest plugin that tells `wmbench conform` what each test said: JSON lines to the file descriptor it was given."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

VARIABLE = "WMBENCH_CONFORM_OUTPUT"
"""Names the file descriptor."""
_LONGEST_REASON = 300
_OUTCOMES = {"passed": "passed", "failed": "failed", "skipped": "not applicable"}


def pytest_collection_finish(session: pytest.Session) -> None:
    _tell({"total": len(session.items)})


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _tell(_record("collection", "", report))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A test is told once: by what it did, or by why it could not begin. A failed clean-up is told, too."""
    if report.when == "call" or not report.passed:
        name, _, parameter = report.nodeid.rpartition("::")[2].partition("[")
        _tell(_record(name.removeprefix("test_").replace("_", " "), parameter.removesuffix("]"), report))


def _record(check: str, backbone: str, report: pytest.TestReport | pytest.CollectReport) -> dict[str, Any]:
    return {
        "check": check,
        "backbone": backbone or None,
        "outcome": _OUTCOMES[report.outcome],
        "reason": reason(report) or None,
        "details": report.longreprtext if report.failed else None,
    }


def reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """What the test says, without the values that pytest found in its place."""
    if report.passed:
        return ""
    told = report.longrepr
    if isinstance(told, tuple):  # of a skipped test: file, line, reason
        return str(told[2]).removeprefix("Skipped: ")
    crash = getattr(told, "reprcrash", None)
    return sentence(crash.message if crash is not None else str(told))


def sentence(message: str) -> str:
    lines = [line.strip() for line in message.removeprefix("AssertionError:").splitlines() if line.strip()]
    said: list[str] = []
    for line in lines:
        if line.startswith(("assert ", "+ ")) and said:
            break
        said.append(line)
    text = "; ".join(said)
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}..."


def _tell(value: dict[str, Any]) -> None:
    os.write(int(os.environ[VARIABLE]), (json.dumps(value) + "\n").encode())
