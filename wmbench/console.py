"""How the commands open the terminal for their tables."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def open_console(piped_width: int, file: IO[str] | None = None) -> Console:
    """As wide as the terminal, or `piped_width` where there is none. Square brackets stay what they are: names and
    reasons hold some."""
    from rich.console import Console

    terminal = Console(file=file, highlight=False, markup=False)
    if terminal.is_terminal:
        return terminal
    return Console(file=file, highlight=False, markup=False, width=piped_width)
