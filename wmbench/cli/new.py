"""`wmbench new`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, print_json

if TYPE_CHECKING:
    from wmbench.scaffold import Kind


@click.group()
def new() -> None:
    """Write a plugin package to start from: a scheme or an attack that works, with its tests."""


_folder_option = click.option("--folder", metavar="DIR", help="Folder to be made (default: wmbench-NAME).")


@new.command()
@click.argument("name")
@_folder_option
@json_option
@global_options
@click.pass_obj
def scheme(invocation: Invocation, name: str, folder: str | None, as_json: bool) -> None:
    """A watermark: a keyed green list with its detector, settings, contract tests and README."""
    _write(invocation, "scheme", name, folder, as_json)


@new.command()
@click.argument("name")
@_folder_option
@json_option
@global_options
@click.pass_obj
def attack(invocation: Invocation, name: str, folder: str | None, as_json: bool) -> None:
    """A text attack: it says words twice, with settings, a strength, contract tests and README."""
    _write(invocation, "attack", name, folder, as_json)


def _write(invocation: Invocation, kind: Kind, name: str, folder: str | None, as_json: bool) -> None:
    from wmbench.scaffold import NewPlugin, require_free, write_plugin

    plugin = NewPlugin(kind, name)
    require_free(plugin, invocation.host)
    target = Path(folder or plugin.distribution)
    written = write_plugin(plugin, target)
    if as_json:
        print_json({"kind": kind, "name": name, "folder": str(target), "files": [str(path) for path in written]})
        return
    for path in written:
        click.echo(path)
    click.echo(f"next step: pip install -e {target}, then wmbench conform {name}")
