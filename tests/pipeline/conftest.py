from __future__ import annotations

import pytest

from tests.pipeline.helpers import KEY


@pytest.fixture(autouse=True)
def a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMBENCH_KEY", KEY)
