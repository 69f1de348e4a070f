"""`wmbench ls` and `wmbench plugins`: what is installed. Imports no torch."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, print_json, print_table

if TYPE_CHECKING:
    from wmbench.host import Entry, Host

KINDS = ("schemes", "attacks", "backbones", "datasets", "encoders")


@click.command()
@click.argument("kinds", nargs=-1, type=click.Choice(KINDS))
@click.option("--settings", is_flag=True, help="Also list every setting with its default.")
@json_option
@global_options
@click.pass_obj
def ls(invocation: Invocation, kinds: tuple[str, ...], settings: bool, as_json: bool) -> None:
    """List schemes, attacks, backbones, datasets and encoders."""
    entries = {kind: list(getattr(invocation.host, kind).values()) for kind in kinds or KINDS}
    if as_json:
        print_json({kind: [_fields(entry, settings) for entry in found] for kind, found in entries.items()})
        return
    for kind, found in entries.items():
        click.echo(kind)
        if not found:
            click.echo("  none installed")
        elif settings:
            for entry in found:
                print_table([(entry.info.name, _summary(entry.info))])
                print_table(
                    [(row["name"], str(row["default"]), row["help"]) for row in _settings(entry)], indent="      "
                )
        else:
            print_table([(entry.info.name, _summary(entry.info)) for entry in found])
    if settings and not kinds:
        from wmbench.runtime.settings import Decoding

        click.echo("decoding (-D)")
        print_table([(row["name"], str(row["default"]), row["help"]) for row in schema_rows(Decoding)])
    broken = sum(plugin.error is not None for plugin in invocation.host.plugins)
    if broken:
        click.echo(f"{broken} plugin(s) do not load; `wmbench plugins` says why", err=True)


def _summary(info: Any) -> str:
    """The summary, and behind it what one must know before using the thing."""
    caveats = [getattr(info, "status", "")]
    if getattr(info, "key_use", "secret") != "secret":
        caveats.append(f"key: {info.key_use}")
    if hasattr(info, "preserves"):  # an attack
        caveats += [f"cost: {info.cost}", f"preserves: {info.preserves}" if info.preserves else ""]
        caveats.append(f"{info.strength}: {', '.join(f'{value:g}' for value in info.grid)}" if info.grid else "")
    if getattr(info, "kind", "prompts") != "prompts":
        caveats.append("null texts")
    shown = "; ".join(caveat for caveat in caveats if caveat)
    return f"{info.summary} [{shown}]" if shown else str(info.summary)


def _fields(entry: Entry[Any], settings: bool) -> dict[str, Any]:
    plugin = entry.plugin
    fields = {
        **{name: sorted(v) if isinstance(v, frozenset) else v for name, v in asdict(entry.info).items()},
        "plugin": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
    }
    if "settings" in fields:
        fields["published_settings"] = fields.pop("settings")
    return {**fields, "config_schema": _settings(entry)} if settings else fields


def _settings(entry: Entry[Any]) -> list[dict[str, Any]]:
    """Every setting of a registered thing; this imports its configuration class."""
    if entry.info.config is None:
        return []
    from wmbench.host import load_attribute

    return schema_rows(load_attribute(entry.info.config, entry.plugin))


def schema_rows(model: Any) -> list[dict[str, Any]]:
    """Name, default and description of every field of a pydantic model."""
    schema = model.model_json_schema()
    return [
        {"name": name, "default": field.get("default"), "help": field.get("description", "")}
        for name, field in schema.get("properties", {}).items()
    ]


@click.command()
@json_option
@global_options
@click.pass_obj
def plugins(invocation: Invocation, as_json: bool) -> None:
    """List installed plugins, their hooks and load errors."""
    host: Host = invocation.host
    if as_json:
        print_json([asdict(plugin) for plugin in host.plugins])
        return
    rows = [
        (
            plugin.name,
            plugin.distribution,
            plugin.version,
            f"ERROR {plugin.error}" if plugin.error else ", ".join(plugin.hooks),
        )
        for plugin in host.plugins
    ]
    print_table([("NAME", "DISTRIBUTION", "VERSION", "HOOKS"), *rows], indent="")
