"""What may be a key is never repeated, neither on the screen nor in a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

HIDDEN: Final = "(a value that looks like a key and is not shown)"
# Hexadecimal with or without separators, decimal, base64 of both alphabets.
_KEY: Final = re.compile(r"[0-9a-fA-F]{32,}|([0-9a-fA-F]{2}[:\s-]){15,}|[A-Za-z0-9+/_=-]{40,}")


def looks_like_key(text: str) -> bool:
    return _KEY.search(text) is not None


def shown(value: Any) -> str:
    """A value for an error message."""
    text = repr(value)
    if looks_like_key(text):
        return HIDDEN
    return text if len(text) <= 80 else text[:77] + "..."


def shown_name(name: str) -> str:
    """The name of a variable for an error message."""
    return HIDDEN if looks_like_key(name) else name


def shown_path(path: Path) -> str:
    """The name of a file for an error message. Base64 has slashes too, so a long path counts if its folder exists."""
    is_path = not looks_like_key(path.name) and (path.parent.is_dir() or not looks_like_key(str(path)))
    return str(path) if is_path else HIDDEN
