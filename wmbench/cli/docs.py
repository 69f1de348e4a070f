"""Writes docs/cli.md from the commands themselves: `python -m wmbench.cli.docs`. A test fails when they differ."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from wmbench.cli.app import COMMANDS, _load, wmbench
from wmbench.host import Host

TARGET = Path(__file__).parents[2] / "docs" / "cli.md"

_INTRODUCTION = """# Command line

Written by `python -m wmbench.cli.docs`; do not edit.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 finished with failures above
the limit, 2 usage or configuration, 3 plugin, 4 integrity (damaged files, a locked folder, a full disk), 130
interrupted and resumable, 141 nobody reads the output any more (`wmbench ls | head -1`).
"""


def cli_markdown() -> str:
    own = {name: _load(path) for name, (path, _) in COMMANDS.items()}
    sections = [_INTRODUCTION, *_sections("wmbench", wmbench, with_children=False)]
    for name, command in {**own, **_commands_of_shipped_plugins()}.items():
        sections += _sections(f"wmbench {name}", command)
    return "\n".join(sections)


def _commands_of_shipped_plugins() -> dict[str, click.Command]:
    """Not those of other distributions that happen to be installed here."""
    found = sorted(Host.discover().commands.items())
    return {name: _load(path, plugin) for name, (path, _, plugin) in found if plugin.distribution == "wmbench"}


def _sections(name: str, command: click.Command, *, with_children: bool = True) -> Iterator[str]:
    context = click.Context(command, info_name=name, help_option_names=["-h", "--help"])
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    lines = [f"## {name}", "", f"`{usage}`", "", inspect.cleandoc(command.help or ""), ""]
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            lines.append(f"- `{record[0]}`: {record[1]}")
    yield "\n".join(lines).rstrip() + "\n"
    if with_children and isinstance(command, click.Group):
        for child_name, child in command.commands.items():
            yield from _sections(f"{name} {child_name}", child)


if __name__ == "__main__":
    TARGET.write_text(cli_markdown(), encoding="utf-8")
