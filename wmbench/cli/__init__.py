"""The command line. Importing this imports no command: each is loaded when it is called."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `wmbench` and return its exit code."""
    from wmbench.runtime.threads import wait_without_spinning

    wait_without_spinning()
    from wmbench.cli.app import run_cli

    return run_cli(arguments)
