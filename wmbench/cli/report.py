"""`wmbench report`"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from wmbench.cli.invocation import global_options, json_option, print_json
from wmbench.errors import ConfigError, IntegrityError

_METRICS = "metrics.json"


@click.command()
@click.argument("folders", metavar="RUN...", nargs=-1, required=True)
@json_option
@global_options
def report(folders: tuple[str, ...], as_json: bool) -> None:
    """Print the results of finished runs, given by their folders."""
    if as_json:
        print_json([_read(Path(folder) / _METRICS) for folder in folders])
    else:
        print_results(Path(folder) / _METRICS for folder in folders)


def print_results(paths: Iterable[Path]) -> None:
    """The table of several runs."""
    from wmbench.bench.table import print_summary

    if results := [_read(path) for path in paths]:
        print_summary(results)


def _read(path: Path) -> dict[str, Any]:
    try:
        metrics: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        hint = "finish it with the same `wmbench run` command" if path.parent.is_dir() else "check the folder's name"
        why = None if path.parent.is_dir() else "there is no such folder"
        raise ConfigError("this run has no results", where=str(path.parent), why=why, hint=hint) from None
    except (OSError, ValueError) as error:
        raise IntegrityError(
            "the results cannot be read", where=str(path), why=str(error), hint="delete the file and run again"
        ) from error
    return metrics
