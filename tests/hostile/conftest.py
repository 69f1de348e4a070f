"""Stored calibrations of every scheme, made by the command itself from a few texts of the lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.commands import KEY, wmbench

SCAN = ["-S", "scan_sizes=24..25"]
SCHEMES = {
    "dlm_kgw": [],
    "denmark": SCAN,
    "patternmark": [],
    "dgmark": [],
    "umr": [],
    "block_best_of_k": SCAN,
    "pmark": SCAN,
    "semstamp": SCAN,
}
FEW = ["--backbone", "mini", "--calibration-texts", "60", "--heldout-texts", "5", "--alpha", "0.05"]


@pytest.fixture(scope="session")
def calibrations(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By scheme. Two sizes instead of 26, so that 60 null texts can decide 5%."""
    folder = tmp_path_factory.mktemp("calibrations")
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMBENCH_KEY", KEY)
        for scheme, settings in SCHEMES.items():
            found[scheme] = folder / f"{scheme}.npz"
            made = ["--scheme", scheme, "--out", str(found[scheme]), "--output", str(folder / "runs")]
            assert wmbench("calibrate", *made, *settings, *FEW).code == 0
    return found


@pytest.fixture(autouse=True)
def a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMBENCH_KEY", KEY)
