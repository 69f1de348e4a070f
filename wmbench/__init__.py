"""wmbench: a plug-in framework and benchmark for text watermarks on diffusion language models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

from wmbench.hookspecs import hookimpl

if TYPE_CHECKING:
    from wmbench.api import RunResult, detect, generate, run

__all__ = ["RunResult", "__version__", "detect", "generate", "hookimpl", "run"]


def __getattr__(name: str) -> Any:
    """The Python interface (`wmbench.api`), imported when it is first asked for: plugins need none of it."""
    if name in ("RunResult", "detect", "generate", "run"):
        from wmbench import api

        return getattr(api, name)
    raise AttributeError(f"module 'wmbench' has no attribute {name!r}")
