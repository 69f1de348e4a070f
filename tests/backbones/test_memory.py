"""Loading never holds two copies of the weights."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.loading import peak_ratio


@pytest.mark.slow
def test_peak_memory_of_a_sharded_gigabyte(tmp_path: Path) -> None:
    size, ratio = peak_ratio(tmp_path)
    assert size > 1e9
    assert ratio < 1.3
