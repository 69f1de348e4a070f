"""wmbench: a plug-in framework and benchmark for text watermarks on diffusion language models."""

from __future__ import annotations

__version__ = "0.1.0"

from wmbench.hookspecs import hookimpl

__all__ = ["__version__", "hookimpl"]
