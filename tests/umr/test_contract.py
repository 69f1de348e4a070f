"""The contract of every scheme, under both bitmaps."""

from __future__ import annotations

from typing import Any, ClassVar

import wmbench_umr

from wmbench.testing import SchemeContract

INFO = wmbench_umr.register_schemes()[0]


class TestUmr(SchemeContract):
    info = INFO
    settings: ClassVar[dict[str, Any]] = {"delta": 10.0, "candidates": 16}


class TestOfficialBitmap(SchemeContract):
    """The published constant key: the registered scheme as `prf: official` makes it."""

    info = INFO
    settings: ClassVar[dict[str, Any]] = {"prf": "official", "message": "10", "p_value": "normal"}


class TestForwardOnly(SchemeContract):
    info = INFO
    settings: ClassVar[dict[str, Any]] = {"strategy": "normal", "regret": False, "delta": 4.0}
    attentions = ("full",)


def test_says_that_it_is_a_port() -> None:
    assert INFO.status == "port, not verified against the authors' code"
