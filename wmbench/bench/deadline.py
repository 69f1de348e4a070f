"""A model that stops answering when the time is up: what an estimate may cost is limited."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wmbench.runtime.backbone import Backbone


class TimeIsUp(BaseException):
    """Not an Exception: those that pass through a hook are taken for the plugin's own."""


class Deadline:
    """A backbone that refuses further forwards when the time is up; the first one always gets through."""

    def __init__(self, backbone: Backbone, seconds: float) -> None:
        self._backbone = backbone
        self._seconds = seconds
        self._begun: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backbone, name)

    def hidden(self, windows: Any) -> Any:
        if self._begun is None:
            self._begun = time.perf_counter()
        elif time.perf_counter() - self._begun > self._seconds:
            raise TimeIsUp
        return self._backbone.hidden(windows)
