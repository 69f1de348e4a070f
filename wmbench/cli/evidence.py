"""A text with its evidence, for a terminal: green spans speak for the watermark, red ones against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wmbench.report.evidence import printable, shades
from wmbench.types import Evidence

if TYPE_CHECKING:
    from rich.text import Text


def coloured(pieces: Sequence[tuple[str, Evidence | None]]) -> Text:
    from rich.text import Text

    text = Text()
    strengths = shades([item.weight if item is not None else None for _, item in pieces])
    for (piece, _), shade in zip(pieces, strengths, strict=True):
        text.append(printable(piece), _style(shade))
    return text


def _style(shade: int | None) -> str:
    if shade is None:
        return "dim"
    if shade == 0:
        return ""
    strength = 40 + 25 * abs(shade)
    return f"white on rgb(0,{strength},0)" if shade > 0 else f"white on rgb({strength},0,0)"
