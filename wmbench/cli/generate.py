"""`wmbench generate`"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from wmbench.cli.invocation import Invocation, global_options, note, nothing_piped
from wmbench.cli.options import config_from_options, model_options
from wmbench.errors import ConfigError
from wmbench.types import Generation, Sample


@click.command()
@click.argument("prompts", nargs=-1)
@click.option("--scheme", metavar="NAME", help="Watermark scheme (default: that of --config, else none).")
@click.option(
    "--file", "prompt_file", metavar="FILE", help="Read prompts from a file, one per line; - is standard input."
)
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per text, with tokens and cost.")
@global_options
@click.pass_obj
def generate(
    invocation: Invocation,
    /,
    prompts: tuple[str, ...],
    scheme: str | None,
    prompt_file: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Answer prompts and print the texts, in order.

    Prompts are arguments, lines of a file, or lines of standard input.
    """
    from wmbench.bench.plan import resolve_one
    from wmbench.config import Choice

    config = config_from_options(schemes=[scheme] if scheme else [], no_attacks=True, **options)
    # The data sets of a file are meant for `wmbench run`.
    config = config.model_copy(update={"schemes": config.schemes or [Choice(name="none")], "datasets": []})
    samples = [Sample(f"prompt-{i:04d}", text, "", i) for i, text in enumerate(_read_prompts(prompts, prompt_file))]
    invocation.warn_about_broken_plugins()
    plan = resolve_one(config, invocation.host)

    from wmbench.bench.build import Builder
    from wmbench.bench.prompts import require_room
    from wmbench.bench.stages.decode import answered, sample_record

    builder = Builder(invocation.host, note)
    builder.require_usable_key(plan)
    require_room(samples, builder.backbone(plan.backbone), plan.decoding)
    generations = answered(plan, builder, builder.key(plan), samples)
    for generation in _in_order(generations, samples):
        click.echo(json.dumps(sample_record(generation)) if as_json else generation.text)
    return 0


def _read_prompts(arguments: Sequence[str], file: str | None) -> list[str]:
    if arguments and file:
        raise click.UsageError("Give prompts as arguments or with --file, not both.")
    if arguments:
        return list(arguments)
    if (file is None and nothing_piped()) or (file == "-" and sys.stdin is None):
        raise click.UsageError("Give at least one prompt, or --file.")
    try:
        text = sys.stdin.read() if file in (None, "-") else Path(str(file)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "the prompts cannot be read",
            where=file or "standard input",
            why=getattr(error, "strerror", None) or str(error),
            hint="give a text file in UTF-8 with one prompt per line",
        ) from error
    prompts = [line.strip() for line in text.splitlines() if line.strip()]
    if not prompts:
        raise ConfigError("there is no prompt", where=file or "standard input", hint="write one prompt per line")
    return prompts


def _in_order(generations: Iterable[Generation], samples: Iterable[Sample]) -> Iterator[Generation]:
    """Generations come as they finish; hold each back until its turn."""
    waiting: dict[str, Generation] = {}
    arriving = iter(generations)
    for sample in samples:
        while sample.id not in waiting:
            generation = next(arriving)
            waiting[generation.sample.id] = generation
        yield waiting.pop(sample.id)
