from __future__ import annotations

from pathlib import Path

import pytest
from fake_distributions import FakeDistributions


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDistributions:
    monkeypatch.delenv("WMBENCH_STRICT_PLUGINS", raising=False)
    monkeypatch.delenv("WMBENCH_DISABLE_PLUGINS", raising=False)
    return FakeDistributions(tmp_path, monkeypatch)
