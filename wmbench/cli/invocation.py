"""What all commands of one call share: the options --plugin and --debug, and the plugin host."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from wmbench.host import Host

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Invocation:
    """One call of `wmbench`."""

    plugin_files: list[str] = field(default_factory=list)
    debug: bool = False
    command: str = ""
    """The name of the command, once it is known."""

    @cached_property
    def host(self) -> Host:
        """Everything installed. Loaded when a command first asks; imports no torch."""
        from wmbench.cli.app import COMMANDS
        from wmbench.host import Host

        return Host.discover(self.plugin_files, reserved_commands=COMMANDS)

    def warn_about_broken_plugins(self) -> None:
        for plugin in self.host.plugins:
            if plugin.error:
                click.echo(f"warning: plugin {plugin} does not load: {plugin.error}", err=True)


def _remember_plugins(ctx: click.Context, _: click.Parameter, files: Sequence[str]) -> None:
    ctx.ensure_object(Invocation).plugin_files.extend(files)


def _remember_debug(ctx: click.Context, _: click.Parameter, debug: bool) -> None:
    invocation = ctx.ensure_object(Invocation)
    invocation.debug = invocation.debug or debug


def global_options(command: Command) -> Command:
    """--plugin and --debug, understood before and after the command's name."""
    for option in (
        click.option(
            "--debug",
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_remember_debug,
            help="Show the traceback of an error.",
        ),
        click.option(
            "--plugin",
            metavar="FILE",
            multiple=True,
            expose_value=False,
            is_eager=True,
            callback=_remember_plugins,
            help="Load a plugin from a Python file; may be repeated.",
        ),
    ):
        command = option(command)
    return command


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts instead of text.")


def note(message: str) -> None:
    """Tell the user something that is not the result."""
    click.echo(message, err=True)


def nothing_piped() -> bool:
    """Whether no text can come from standard input: it is closed, or somebody's keyboard."""
    return sys.stdin is None or sys.stdin.isatty()


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(rows: Sequence[Sequence[str]], indent: str = "  ") -> None:
    """Columns aligned by their widest cell, the last one free."""
    if not rows:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo((indent + "  ".join([*cells, row[-1]])).rstrip())
