"""`wmbench key`"""

from __future__ import annotations

from pathlib import Path

import click

from wmbench.cli.invocation import global_options, json_option, print_json


@click.group()
def key() -> None:
    """Make a secret key, or print a key's id. The key itself is never printed."""


@key.command()
@click.argument("file", required=False)
@json_option
@global_options
def new(file: str | None, as_json: bool) -> None:
    """Save a new key in FILE, readable by you alone, and print its id.

    Without FILE it becomes your default key. An existing file is never overwritten.
    """
    from wmbench.bench.build import default_key_file
    from wmbench.disk import make_folder
    from wmbench.keys import SecretKey

    path = Path(file) if file else default_key_file()
    make_folder(path.parent)
    secret = SecretKey.generate()
    secret.write(path)
    if as_json:
        print_json({"key_id": secret.id, "file": str(path)})
    else:
        click.echo(f"{secret.id}  {path}")


@key.command(name="id")
@click.argument("source", required=False)
@json_option
@global_options
def show_id(source: str | None, as_json: bool) -> None:
    """Print the id of the key at SOURCE: a file, env:VARIABLE or file:PATH; without SOURCE, of the default key."""
    import os

    from wmbench.bench.build import default_key_file
    from wmbench.config import key_source
    from wmbench.keys import DEFAULT_VARIABLE, KeySource

    if source is not None:
        found = key_source(source if source.startswith(("env:", "file:")) else f"file:{source}")
    elif DEFAULT_VARIABLE in os.environ:
        found = KeySource("env", DEFAULT_VARIABLE)
    else:
        found = KeySource("file", str(default_key_file()))
    key_id = found.load().id
    if as_json:
        print_json({"key_id": key_id, "source": f"{found.kind}:{found.name}"})
    else:
        click.echo(key_id)
