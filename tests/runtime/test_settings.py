"""Decoding settings that make no sense are refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from wmbench.runtime.settings import Decoding


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": float("inf")}, "finite number"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"steps": 4, "tokens_per_step": 2}, "not both"),
        ({"schedule": "origin", "tokens_per_step": 2}, "use `steps`"),
        ({"max_new_tokens": 50, "block_length": 25, "steps": 5}, "multiple of the number of blocks"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        Decoding(**settings)
