"""`wmbench attack`"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wmbench.cli.invocation import Invocation, global_options, note, nothing_piped, print_json
from wmbench.cli.options import attack_options, config_from_options
from wmbench.errors import ConfigError

if TYPE_CHECKING:
    from wmbench.bench.jsonl import Record
    from wmbench.bench.plan import RunPlan
    from wmbench.types import AttackInput

Keep = Callable[["Record"], None]


@click.command()
@click.argument("sources", metavar="[FILE|FOLDER|-]...", nargs=-1)
@attack_options
@click.option("--jsonl", "lines_on_stdin", is_flag=True, help="Standard input has one JSON value per line, as .jsonl.")
@click.option("--out", metavar="FILE", help="Write JSON lines to a file, and print how many texts failed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per result; with --out: the counts.")
@global_options
@click.pass_obj
def attack(
    invocation: Invocation,
    /,
    sources: tuple[str, ...],
    lines_on_stdin: bool,
    out: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Attack texts outside of a run and print the results, attack by attack.

    A file is one text; a .jsonl file, such as a run's samples.jsonl, has one text per line (id, text, prompt); a folder
    is searched for both; - is standard input. Randomness depends on the seed and a text's id (the name of its
    file, if it has no other), so a run's samples come out as in the run. Where an attack fails, the reason takes the
    place of the text: on standard error, or as `error`.
    """
    from wmbench.bench.plan import resolve_one

    if not options["attacks"]:
        raise click.UsageError("Give at least one --attack; `wmbench ls attacks` lists them.")
    if not sources and nothing_piped():
        raise click.UsageError("Give a file, a folder, or - for standard input.")
    config = config_from_options(schemes=["none"], **options)  # the scheme plays no part here
    invocation.warn_about_broken_plugins()
    plan = resolve_one(config, invocation.host)
    items = _items(sources, lines_on_stdin)
    with _results(out, as_json, is_single=len(items) * len(plan.attacks) == 1) as keep:
        counts = _attack_all(invocation, plan, items, keep, is_quiet=out is None)
    if out is not None:
        _print_counts(out, counts, len(items), as_json)
    return int(any(failed > config.failure_limit * len(items) for failed in counts.values()))


def _items(sources: Sequence[str], lines_on_stdin: bool) -> list[AttackInput]:
    """All of them at once: a file that cannot be read must not show up after an hour."""
    from wmbench.bench.inputs import STANDARD_INPUT, read_inputs
    from wmbench.types import AttackInput

    texts = read_inputs(sources or [STANDARD_INPUT], lines_on_stdin=lines_on_stdin)
    items = [AttackInput(text.id or text.name, text.text, text.prompt) for text in texts]
    if not items:
        raise ConfigError("there is no text to attack", where=", ".join(sources) or "standard input")
    twice = [identity for identity, count in Counter(item.id for item in items).items() if count > 1]
    if twice:
        raise ConfigError(
            "two texts have the same id",
            why=f"{twice[0]!r}" + (f", and {len(twice) - 1} more ids" if len(twice) > 1 else ""),
            hint="attack files whose records have the same ids one by one",
        )
    return items


def _attack_all(
    invocation: Invocation, plan: RunPlan, items: Sequence[AttackInput], keep: Keep, is_quiet: bool
) -> dict[str, int]:
    """Hand over every result; how many texts each attack failed on."""
    from wmbench.bench.attack_checks import require_attack, workable
    from wmbench.bench.attack_files import attack_batch, attacked_records, batches
    from wmbench.bench.build import Builder
    from wmbench.observers import ProgressObserver, watched

    builder = Builder(invocation.host, note)
    attacks, checked = workable(plan.attacks, builder), set[str]()
    for chain in attacks:
        require_attack(chain, builder, checked)
    codec = builder.codec(plan.backbone)
    progress = None if is_quiet else ProgressObserver()
    failed: dict[str, int] = {}
    for chain in attacks:
        work = attack_batch(chain, builder, plan.backbone, codec, plan.config.seed)
        failed[chain.label] = 0
        worked = False
        with watched(progress, chain.label, len(items)) as advance:
            for batch in batches(items):
                for record in attacked_records(batch, work, worked):
                    worked = worked or record["text"] is not None
                    failed[chain.label] += record["text"] is None
                    keep({"id": record.pop("id"), "attack": chain.label, **record})
                advance(len(batch))
    return failed


# --- where results go ------------------------------------------------------------------------------------------


@contextmanager
def _results(out: str | None, as_json: bool, is_single: bool) -> Iterator[Keep]:
    if out is None:
        yield _print_line if as_json else lambda record: _print_text(record, is_single)
        return
    from wmbench.bench.jsonl import JsonlFile
    from wmbench.disk import disk_errors, make_folder

    path = Path(out)
    if path.is_dir():
        raise ConfigError("--out is a folder", where=out, hint="name a file, for instance attacked.jsonl")
    make_folder(path.parent)
    unfinished = JsonlFile(path.with_name(f"{path.name}.part"))
    unfinished.rewrite([])  # a folder that cannot be written to shows now, not after the work
    try:
        yield unfinished.append
    except BaseException:
        note(f"what was finished is in {unfinished.path}")
        raise
    with disk_errors(path):
        unfinished.path.replace(path)


def _print_line(record: Record) -> None:
    click.echo(json.dumps(record))


def _print_text(record: Record, is_single: bool) -> None:
    """One result is its text and nothing else; several have headings, as those of `head`."""
    from wmbench.report.evidence import printable

    title = f"{printable(record['id'])}, {record['attack']}"
    text = record["text"]
    if text is None:
        note(f"failed: {title}: {printable(record['error'])}")
        return
    if sys.stdout.isatty():
        text = printable(text)
    if not is_single:
        click.echo(f"==> {title} <==")
    # As bytes: a text may hold lone surrogates, which no terminal and no file can be given.
    click.echo(text.encode("utf-8", "replace"), nl=not text.endswith("\n"))


def _print_counts(out: str, failed: dict[str, int], texts: int, as_json: bool) -> None:
    if as_json:
        attacks = {label: {"texts": texts, "failed": count} for label, count in failed.items()}
        print_json({"file": out, "attacks": attacks})
        return
    for label, count in failed.items():
        click.echo(f"{label}: {texts} texts" + (f", {count} failed" if count else ""))
    click.echo(f"results: {out}")
