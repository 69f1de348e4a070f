"""The encoders are found by name like any third party's, and loaded once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from wmbench.errors import ConfigError
from wmbench.host import Host, PluginRecord
from wmbench.semantics import plugin
from wmbench.semantics.cache import CachedEncoder


@pytest.fixture
def host() -> Host:
    host = Host(strict=True)
    host.register(plugin, PluginRecord("semantics", "wmbench", "test"))
    return host


def test_what_is_registered(host: Host) -> None:
    assert set(host.encoders) == {"mini", "mini-untrained", "mini:", "hf:", "minilm"}
    assert "train-encoder" in host.commands


def test_an_encoder_is_loaded_once(host: Host, small_directory: Path, tmp_path: Path) -> None:
    name = f"mini:{small_directory}"
    encoder = plugin.load_encoder(host, name)
    assert plugin.load_encoder(host, name) is encoder
    # A small encoder is faster than any disk, and the cache would hide its fast paths.
    assert plugin.load_encoder(host, name, tmp_path) is encoder


def test_slow_encoders_are_cached(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        dimension = 2
        fingerprint = "slow"

        def encode(self, texts: list[str]) -> np.ndarray:
            return np.ones((len(texts), 2), dtype=np.float32)

    monkeypatch.setattr("wmbench.semantics.hf_encoder.minilm", lambda argument: Slow())
    monkeypatch.setattr(plugin, "_loaded", {})
    encoder = plugin.load_encoder(host, "minilm", tmp_path)
    assert isinstance(encoder, CachedEncoder)
    np.testing.assert_array_equal(encoder.encode(["a", "b"]), np.ones((2, 2)))


def test_names_that_lead_nowhere(host: Host) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        plugin.load_encoder(host, "minilim")
    with pytest.raises(ConfigError, match="colon"):
        plugin.load_encoder(host, "hf:")
    with pytest.raises(ConfigError, match="do not exist"):
        plugin.load_encoder(host, "mini:/nowhere")
