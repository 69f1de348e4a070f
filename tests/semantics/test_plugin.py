"""The encoders are found by name like any third party's, and loaded once."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmbench.bench.build import Builder
from wmbench.errors import ConfigError
from wmbench.host import Host, PluginRecord
from wmbench.semantics import plugin


@pytest.fixture
def host() -> Host:
    host = Host(strict=True)
    host.register(plugin, PluginRecord("semantics", "wmbench", "test"))
    return host


def test_what_is_registered(host: Host) -> None:
    assert set(host.encoders) == {"mini", "mini-untrained", "mini:", "hf:", "minilm"}
    assert "train-encoder" in host.commands


def test_an_encoder_is_loaded_once(host: Host, small_directory: Path) -> None:
    builder, name = Builder(host), f"mini:{small_directory}"
    assert builder.encoder(name) is builder.encoder(name)


def test_names_that_lead_nowhere(host: Host) -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        Builder(host).encoder("minilim")
    with pytest.raises(ConfigError, match="colon"):
        Builder(host).encoder("hf:")
    with pytest.raises(ConfigError, match="do not exist"):
        Builder(host).encoder("mini:/nowhere")
