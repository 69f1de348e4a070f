"""`wmbench new`"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, print_json

if TYPE_CHECKING:
    from wmbench.scaffold import Kind


@click.command()
@click.argument("kind", type=click.Choice(["scheme", "attack"]))
@click.argument("name")
@click.option("--folder", metavar="DIR", help="Folder to be made (default: wmbench-NAME).")
@json_option
@global_options
@click.pass_obj
def new(invocation: Invocation, kind: Kind, name: str, folder: str | None, as_json: bool) -> None:
    """Write a plugin package to start from: a scheme or an attack that works, with its tests.

    The scheme is a keyed green list with its detector, the attack repeats words; both come with settings, contract
    tests and a README.
    """
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
