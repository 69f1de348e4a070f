"""How threads wait is settled before torch is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from wmbench.runtime.threads import wait_without_spinning


def openmp_settings(code: str, **environment: str) -> str:
    """What GNU OpenMP says of itself when the code has loaded it."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    environment = {**inherited, "OMP_DISPLAY_ENV": "verbose", **environment}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    if "GOMP_SPINCOUNT" not in done.stderr:
        pytest.skip("torch has another OpenMP here")
    return done.stderr


@pytest.mark.parametrize(
    "code",
    ["from wmbench.cli import main; main(['--version']); import torch", "import wmbench; wmbench.run; import torch"],
)
def test_torch_loads_with_a_short_spin(code: str) -> None:
    assert "GOMP_SPINCOUNT = '1000'" in openmp_settings(code)


def test_the_users_setting_counts() -> None:
    code = "from wmbench.cli import main; main(['--version']); import torch"
    assert "GOMP_SPINCOUNT = '70'" in openmp_settings(code, GOMP_SPINCOUNT="70")


def test_a_wait_policy_is_left_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    wait_without_spinning()
    assert "GOMP_SPINCOUNT" not in os.environ
