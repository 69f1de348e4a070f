"""`wmbench analyse`: a group that plugins fill, with commands registered as `analyse <name>`."""

from __future__ import annotations

import difflib

import click

from wmbench.cli.app import _load
from wmbench.cli.invocation import Invocation, global_options

_PREFIX = "analyse "


class AnalyseGroup(click.Group):
    """Knows its commands by name; imports one when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        commands = ctx.ensure_object(Invocation).host.commands
        return sorted(name.removeprefix(_PREFIX) for name in commands if name.startswith(_PREFIX))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        found = ctx.ensure_object(Invocation).host.commands.get(_PREFIX + name)
        return _load(found[0], found[2]) if found else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            near = difflib.get_close_matches(args[0], known, n=2, cutoff=0.4)
            meant = f"Did you mean {' or '.join(near)}?" if near else f"Known: {', '.join(known) or 'none'}."
            raise click.UsageError(f"No such analysis {args[0]!r}. {meant}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=AnalyseGroup)
@global_options
def analyse() -> None:
    """Run experiments of installed plugins that look inside a scheme."""
