"""`wmbench key`"""

from __future__ import annotations

from pathlib import Path

import click

from wmbench.cli.session import global_options


@click.group()
def key() -> None:
    """Make a secret key, or print a key's id. The key itself is never printed."""


@key.command()
@click.argument("file", required=False)
@global_options
def new(file: str | None) -> None:
    """Save a new key in FILE, readable by you alone, and print its id.

    Without FILE it becomes your default key. An existing file is never overwritten.
    """
    from wmbench.bench.build import default_key_file
    from wmbench.bench.disk import make_folder
    from wmbench.keys import SecretKey

    path = Path(file) if file else default_key_file()
    make_folder(path.parent)
    secret = SecretKey.generate()
    secret.write(path)
    click.echo(f"{secret.id}  {path}")


@key.command(name="id")
@click.argument("source", required=False)
@global_options
def show_id(source: str | None) -> None:
    """Print the id of the key at SOURCE: env:VARIABLE, file:PATH, or the default key."""
    import os

    from wmbench.bench.build import default_key_file
    from wmbench.config import key_source
    from wmbench.keys import DEFAULT_VARIABLE, KeySource

    if source is not None:
        found = key_source(source)
    elif DEFAULT_VARIABLE in os.environ:
        found = KeySource("env", DEFAULT_VARIABLE)
    else:
        found = KeySource("file", str(default_key_file()))
    click.echo(found.load().id)
