"""`wmbench analyse side-by-side`"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from wmbench.cli.invocation import global_options
from wmbench.errors import ConfigError

_WIDTH = 110


@click.command("side-by-side")
@click.argument("folders", metavar="RUN...", nargs=-1, required=True)
@click.option("--prompts", type=click.IntRange(1), default=6, show_default=True, help="Prompts shown.")
@click.option("--markdown", is_flag=True, help="Print Markdown for a document.")
@global_options
def side_by_side(folders: tuple[str, ...], prompts: int, markdown: bool) -> None:
    """Print what several runs answered to the same prompts, for instance a clean and a marked one."""
    runs = [(_label(Path(folder)), _samples(Path(folder))) for folder in folders]
    shared = [name for name in runs[0][1] if len({_prompt(samples, name) for _, samples in runs}) == 1][:prompts]
    if not shared:
        raise ConfigError("these runs have no prompt in common", hint="give runs on the same dataset")
    for name in shared:
        prompt = _one_line(runs[0][1][name]["prompt"])
        if markdown:
            click.echo(f"### {prompt}\n")
            for label, samples in runs:
                click.echo(f"**{label}.** {_one_line(samples[name]['text'])}\n")
        else:
            click.echo(click.style(textwrap.fill(prompt, _WIDTH), bold=True))
            for label, samples in runs:
                click.echo(f"  {label}:")
                text = _one_line(samples[name]["text"]) or "(no words)"
                click.echo(textwrap.fill(text, _WIDTH, initial_indent="    ", subsequent_indent="    "))
            click.echo()


def _label(folder: Path) -> str:
    from wmbench.bench.store import RunStore

    run = RunStore(folder).read_run()
    if run is None:
        raise ConfigError("this is not a run folder", where=str(folder), hint="give folders that `wmbench run` made")
    return str(run["scheme"]["name"])


def _samples(folder: Path) -> dict[str, dict[str, Any]]:
    from wmbench.bench.store import RunStore

    return {record["id"]: dict(record) for record in RunStore(folder).samples.read()}


def _prompt(samples: Mapping[str, Mapping[str, Any]], name: str) -> str | None:
    """Equal ids need not be equal prompts: every prompt file without ids counts from jsonl-0000."""
    return str(samples[name]["prompt"]) if name in samples else None


def _one_line(text: str) -> str:
    from wmbench.report.evidence import printable

    return printable(" ".join(text.split()))
