"""The endpoint, a private cache, and lab texts to attack."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks_model.server import Endpoint

CANARY = "sk-canary-4f7a9c1e5b2d8036"

needs_openai = pytest.mark.skipif(importlib.util.find_spec("openai") is None, reason="extra llm")


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    yield server
    server.stop()


@pytest.fixture
def llm(endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Settings that lead to the endpoint, with a cache of its own and no long pauses."""
    monkeypatch.setenv("TEST_API_KEY", CANARY)
    cache = str(tmp_path / "answers.sqlite")
    return {"base_url": endpoint.url, "api_key_env": "TEST_API_KEY", "cache": cache, "pause": 0.01, "workers": 4}


@pytest.fixture(scope="session")
def lab_texts() -> list[str]:
    """Readable answers of a few sentences each."""
    from wmbench.lab.language import language
    from wmbench.lab.sample import sample

    topics = list(language().topics)
    return [sample(topics[7 * i], 100 + i).text for i in range(3)]
