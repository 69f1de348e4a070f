"""Colours of the schemes: readable on white and on near-black. A scheme keeps its colour all over the page."""

from typing import Final

PALETTE: Final = ("#2f6fdb", "#d9480f", "#0b8a6a", "#b8308f", "#a67c00", "#6b4de6", "#5c7080", "#c92a2a")
