"""The contract of every scheme, under both bitmaps."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import wmbench_umr
from pydantic import ValidationError
from wmbench_umr.config import UmrConfig

from wmbench.settings import parse_override
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


@pytest.mark.parametrize("typed", ["1001", "10", "'0101'", '"1"', "1" * 64])
def test_a_message_may_be_typed_without_quotes(typed: str) -> None:
    assert UmrConfig(**dict([parse_override(f"message={typed}", "-S")])).message == typed.strip("'\"")


@pytest.mark.parametrize("typed", ["0101", "01", "0", "1", "102", "true"])
def test_what_yaml_makes_of_a_message_is_never_taken_for_it(typed: str) -> None:
    """YAML reads 0101 as 65 and 01 as 1: the bits are lost."""
    with pytest.raises(ValidationError, match="quotes" if typed != "true" else "string"):
        UmrConfig(**dict([parse_override(f"message={typed}", "-S")]))


def test_says_that_it_is_a_port() -> None:
    assert INFO.status == "port, not verified against the authors' code"
