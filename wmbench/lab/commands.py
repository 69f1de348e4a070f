"""`wmbench lab`: look at the embedded world, measure it, train its models. Torch is imported where it is needed."""

from __future__ import annotations

import json
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wmbench.errors import ConfigError, Interrupted, UnknownNameError
from wmbench.lab.language import Topic, language
from wmbench.lab.paraphrase import MODES, Mode
from wmbench.lab.report import SECTIONS

if TYPE_CHECKING:
    from wmbench.lab.training.backbone import BackboneTrainer

WEIGHTS = {"mini": "mini.safetensors", "judge": "mini-judge.safetensors"}
FOLDER = click.Path(file_okay=False, path_type=Path)
WEIGHTS_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def lab() -> None:
    """The embedded world: check it, show it, measure it, train its models."""


@lab.command()
@click.option("--documents", default=40, show_default=True, type=click.IntRange(2), help="Documents per topic.")
def check(documents: int) -> None:
    """Check the language's data files; exit 1 when a requirement is missed."""
    from wmbench.lab.check import check as check_language

    report = check_language(documents=documents)
    for line in report.lines():
        click.echo(line)
    if not report.ok:
        raise click.exceptions.Exit(1)


@lab.command()
@click.option("--topic", "topic_name", help="Topic id; without it (and without --prompt) the topics are listed.")
@click.option("--prompt", help="One of the lab's prompts.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0))
@click.option("--paraphrase", "mode", type=click.Choice(MODES), help="Also show the text after a lab attack.")
def show(topic_name: str | None, prompt: str | None, seed: int, mode: Mode | None) -> None:
    """Show the document of a topic or prompt under a seed, and what it says."""
    from wmbench.lab.paraphrase import paraphrase
    from wmbench.lab.sample import sample

    if topic_name is not None and prompt is not None:
        raise click.UsageError("give either --topic or --prompt")
    if topic_name is None and prompt is None:
        for topic in language().topics.values():
            click.echo(f"{topic.domain:<8} {topic.id:<28} {topic.prompts[0]}")
        return
    asked = (prompt or topic_name or "").strip()
    topic = _topic(asked, is_prompt=prompt is not None)
    document = sample(asked, seed)
    click.echo(f"{topic.domain}, {topic.id}, seed {seed}\n\n{document.text}\n")
    for statement in document.meaning.statements:
        values = ", ".join(f"{name} {value}" for name, value in statement.values)
        click.echo(f"  {statement.proposition}" + (f" ({values})" if values else ""))
    if mode:
        result = paraphrase(document.text, mode, seed)
        click.echo(f"\n{mode} ({result.coverage.fragments:.0%} of the words recognised)\n\n{result.text}")


def _topic(asked: str, *, is_prompt: bool) -> Topic:
    known = language()
    if is_prompt and asked not in known.prompts:
        near = get_close_matches(asked, known.prompts, n=3)  # all 360 would fill the screen
        why = f"near ones: {' / '.join(near)}" if near else None
        hint = "run `wmbench lab show` to see the topics, each with its first prompt"
        raise ConfigError(f"the lab has no prompt {asked!r}", why=why, hint=hint)
    if not is_prompt and asked not in known.topics:
        raise UnknownNameError("lab topic", asked, known.topics, hint="run `wmbench lab show` to see the topics")
    return known.topic(asked)


@lab.command()
@click.option("--section", "sections", multiple=True, type=click.Choice(SECTIONS), help="Repeatable; default: all.")
@click.option("--documents", default=40, show_default=True, type=click.IntRange(2), help="Documents per topic.")
@click.option("--samples", default=200, show_default=True, type=click.IntRange(1), help="Clean outputs of `mini`.")
@click.option("--pairs", default=1000, show_default=True, type=click.IntRange(2), help="Paraphrase pairs.")
@click.option("--json", "as_data", is_flag=True, help="Print JSON.")
@click.option("--write-cards", "cards", is_flag=True, help="Write the figures into the model cards.")
@click.option("--cards-folder", type=FOLDER, help="Where the cards are; default: beside the weights.")
def report(
    sections: tuple[str, ...],
    documents: int,
    samples: int,
    pairs: int,
    as_data: bool,
    cards: bool,
    cards_folder: Path | None,
) -> None:
    """Measure every figure the lab promises and show it beside its target."""
    from wmbench.lab.report import as_json, as_lines, measure, write_cards

    def progress(line: str) -> None:
        click.echo(line, err=True)

    figures = measure(sections or SECTIONS, documents=documents, samples=samples, pairs=pairs, progress=progress)
    if as_data:
        click.echo(json.dumps(as_json(figures), indent=1))
    else:
        click.echo("\n".join(as_lines(figures)).lstrip("\n"))
    if cards:
        for path in write_cards(figures, cards_folder or _weights_folder()):
            click.echo(f"wrote {path}", err=True)


@lab.command()
@click.option("--backbone", default="mini", show_default=True, help="Backbone whose clean answers are printed.")
@click.option("--per-domain", default=4, show_default=True, type=click.IntRange(1), help="Answers per domain.")
def samples(backbone: str, per_domain: int) -> None:
    """Print the first clean answers of a backbone as Markdown, without selection."""
    from itertools import islice

    from wmbench.lab.datasets import clean_samples, clean_texts
    from wmbench.lab.language import DOMAINS

    wanted = per_domain * len(DOMAINS)
    prompts = {sample.id: sample.prompt for sample in islice(clean_samples(backbone), wanted)}
    texts = sorted(clean_texts(backbone, wanted), key=lambda text: list(prompts).index(text.id))
    for domain in DOMAINS:
        click.echo(f"## {domain}\n")
        for text in (one for one in texts if one.domain == domain):
            click.echo(f"**{prompts[text.id]}** (`{text.id}`)\n\n{text.text}\n")


def _training_options(command: Callable[..., None]) -> Callable[..., None]:
    options = (
        click.option("--folder", required=True, type=FOLDER, help="Checkpoints and log; the same folder resumes."),
        click.option("--steps", type=click.IntRange(1), help="Steps in all; also the length of the schedule."),
        click.option("--threads", type=click.IntRange(1), help="Processor threads; default: torch's own choice."),
        click.option("--start-from", "start", type=WEIGHTS_FILE, help="Begin with these weights; needs --start-step."),
        click.option("--start-step", type=click.IntRange(0), help="Where in the schedule given weights begin."),
        click.option("--autocast", is_flag=True, help="Multiply in bfloat16, where the processor can."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@lab.command()
@_training_options
def train_backbone(folder: Path, threads: int | None, start: Path | None, **recipe: Any) -> None:
    """Train `mini` (hours on two idle cores), or resume."""
    from wmbench.lab.training.backbone import BackboneRecipe, BackboneTrainer

    _train(BackboneTrainer, BackboneRecipe, folder, threads, start, recipe)


@lab.command()
@_training_options
def train_judge(folder: Path, threads: int | None, start: Path | None, **recipe: Any) -> None:
    """Train `mini-judge` (a quarter of an hour on two cores), or resume."""
    from wmbench.lab.training.judge import JudgeRecipe, JudgeTrainer

    _train(JudgeTrainer, JudgeRecipe, folder, threads, start, recipe)


def _train(
    trainer: Callable[..., BackboneTrainer],
    recipe: Callable[..., Any],
    folder: Path,
    threads: int | None,
    start: Path | None,
    settings: dict[str, Any],
) -> None:
    import torch

    from wmbench.lab.codec import lab_codec

    if (start is None) != (settings["start_step"] is None):
        raise click.UsageError("--start-from and --start-step go together")
    if threads:
        torch.set_num_threads(threads)
    given = {name: value for name, value in settings.items() if value is not None}
    training = trainer(folder, lab_codec(), recipe(**given), start)
    if training.step:
        click.echo(f"going on at step {training.step}")
    try:
        training.train(click.echo)
    except KeyboardInterrupt:
        raise Interrupted(
            f"stopped at step {training.step}",
            where=str(folder),
            hint="the same command goes on at the last checkpoint",
        ) from None
    done = folder / "average.safetensors"
    if not done.is_file():
        raise ConfigError("nothing was trained", why=f"the schedule ends at step {training.step}", hint="raise --steps")
    click.echo(f"done: {done}; ship it with `wmbench lab export-weights`")


@lab.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--model", required=True, type=click.Choice(list(WEIGHTS)), help="Which model the folder trained.")
@click.option("--blend", type=WEIGHTS_FILE, help="Mix in other weights, such as those that the run began with.")
@click.option("--blend-share", default=0.3, show_default=True, type=click.FloatRange(0, 1), help="Share of --blend.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Default: the package's own file.")
def export_weights(folder: Path, model: str, blend: Path | None, blend_share: float, output: Path | None) -> None:
    """Turn the averaged weights of a training folder into the fp16 file that is shipped."""
    from safetensors.torch import save_file

    from wmbench.disk import make_folder
    from wmbench.lab.training.weights import read_weights

    source = folder / "average.safetensors"
    if not source.is_file():
        raise ConfigError(
            "the folder holds no averaged weights",
            where=str(source),
            hint="train until a checkpoint, or name another folder",
        )
    target = output or _weights_folder() / WEIGHTS[model]
    aside = target.with_suffix(".tmp")
    weights = read_weights(source)
    if blend is not None:
        others = read_weights(blend)
        if {n: t.shape for n, t in others.items()} != {n: t.shape for n, t in weights.items()}:
            raise ConfigError("the weights to blend are of another shape", where=str(blend))
        weights = {name: tensor.lerp(others[name].float(), blend_share) for name, tensor in weights.items()}
    make_folder(target.parent)
    save_file({name: tensor.half().contiguous() for name, tensor in weights.items()}, aside)
    aside.chmod(0o644)  # the library writes 0600, which would make an installed package unreadable to others
    aside.replace(target)
    click.echo(f"wrote {target} ({target.stat().st_size / 1e6:.1f} MB)")


def _weights_folder() -> Path:
    from wmbench.lab.codec import weights_folder

    return Path(str(weights_folder()))
