"""`wmbench train-encoder`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wmbench.errors import ConfigError

if TYPE_CHECKING:
    from wmbench.semantics.contrastive import ContrastiveRecipe, Progress
    from wmbench.semantics.trainable import Trainable

SMALL = "small"
LEARNING_RATES = {SMALL: 1e-2, "hf": 1e-5}
RETRIEVAL_PAIRS = 1000
FEWEST_RETRIEVAL_PAIRS = 2


@click.command("train-encoder")
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Directory to write; must not hold files yet."
)
@click.option(
    "--encoder",
    default=SMALL,
    show_default=True,
    help="What to train: small (from scratch) or hf:<directory or hub id>.",
)
@click.option("--tokenizer", type=click.Path(path_type=Path), help="tokenizer.json for small; default: the lab's.")
@click.option("--epochs", default=3, show_default=True)
@click.option("--batch-size", default=128, show_default=True, help="Every other positive of a batch is a negative.")
@click.option("--learning-rate", type=float, help="Default: 1e-5 for hf encoders, 1e-2 for small.")
@click.option("--temperature", default=0.05, show_default=True)
@click.option("--group-size", default=1, show_default=True, help="Pairs of one group kept together in a batch.")
@click.option("--seed", default=42, show_default=True)
@click.option("--threads", type=click.IntRange(1), help="Processor threads; default: torch's own choice.")
def train_encoder(
    pairs: Path,
    out: Path,
    encoder: str,
    tokenizer: Path | None,
    learning_rate: float | None,
    threads: int | None,
    **settings: Any,
) -> None:
    """Train a sentence encoder on paraphrase PAIRS by the paper's recipe.

    PAIRS is a JSON-lines file with the fields anchor and positive (or text and paraphrase), and optionally group, a
    number shared by pairs of one document. Up to 1,000 pairs are kept apart to measure retrieval before and after.
    """
    import torch

    from wmbench.disk import make_folder, require_writable
    from wmbench.semantics.contrastive import measure_retrieval, read_pairs, split_pairs, train

    if threads is not None:
        torch.set_num_threads(threads)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(
            f"{str(out)!r} is in the way", why="it exists and is not an empty directory", hint="choose another --out"
        )
    require_writable(out)
    if learning_rate is None:
        learning_rate = LEARNING_RATES[SMALL if encoder == SMALL else "hf"]
    recipe = make_recipe(learning_rate, settings)
    every = read_pairs(pairs)
    training, held_out = split_pairs(every, min(RETRIEVAL_PAIRS, len(every) // 10), recipe.seed)
    if len(held_out) < FEWEST_RETRIEVAL_PAIRS:
        raise ConfigError(f"{len(every)} pairs are too few to train on", hint="thousands are usual; 20 is the least")
    if not training:
        raise ConfigError(
            f"all {len(every)} pairs are of one group",
            where=str(pairs),
            why="whole groups are kept apart to measure retrieval, so none is left to train on",
            hint="number the documents that the pairs come from, or leave `group` out",
        )
    model = open_model(encoder, tokenizer, recipe.seed, [pair.anchor for pair in training])
    click.echo(f"{len(training)} pairs for training, {len(held_out)} for retrieval")
    before = measure_retrieval(model, held_out)
    click.echo(f"retrieval (1 in {len(held_out)}) before: {before:.1%}")
    with progress_display() as report:
        losses = train(model, training, recipe, report)
    after = measure_retrieval(model, held_out)
    click.echo(f"retrieval (1 in {len(held_out)}) after: {after:.1%}")

    facts = {
        "recipe": recipe.model_dump(),
        "encoder": encoder,
        "pairs": {"file": pairs.name, "training": len(training), "held_out": len(held_out)},
        "retrieval": {"candidates": len(held_out), "before": before, "after": after},
        "loss_by_epoch": losses,
    }
    make_folder(out)
    model.save(out, facts)
    (out / "training.json").write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
    name = f"{'mini' if encoder == SMALL else 'hf'}:{out}"
    (out / "README.md").write_text(model_card(name, facts), encoding="utf-8")
    click.echo(f"written to {out}; use it as --encoder {name}")


def make_recipe(learning_rate: float, settings: dict[str, Any]) -> ContrastiveRecipe:
    from pydantic import ValidationError

    from wmbench.semantics.contrastive import ContrastiveRecipe

    try:
        return ContrastiveRecipe(learning_rate=learning_rate, **settings)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}") from error


def open_model(encoder: str, tokenizer: Path | None, seed: int, texts: Sequence[str]) -> Trainable:
    """The encoder to train: `small`, or `hf:<directory or hub id>`."""
    if encoder == SMALL:
        from wmbench.lab.training.tokenizer import PROMPT_LAYOUT
        from wmbench.semantics.mini_encoder import TOKENIZER_FILE
        from wmbench.semantics.plugin import LAB_WEIGHTS
        from wmbench.semantics.trainable import MiniModule

        own = (tokenizer,) if tokenizer is not None else (LAB_WEIGHTS / TOKENIZER_FILE, PROMPT_LAYOUT)
        model = MiniModule(*own, seed=seed)
        model.weigh_by_rarity(texts)
        return model
    kind, _, argument = encoder.partition(":")
    if kind != "hf" or not argument:
        raise ConfigError(f"cannot train the encoder {encoder!r}", hint="use small or hf:<directory or hub id>")
    if tokenizer is not None:
        raise ConfigError("--tokenizer is for small only", why="an hf encoder brings its own tokenizer")
    from wmbench.semantics.hf_encoder import locate
    from wmbench.semantics.trainable import HfModule

    return HfModule(locate(argument))


@contextmanager
def progress_display() -> Iterator[Callable[[Progress], None]]:
    """A progress bar on a terminal, plain lines elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda progress: click.echo(str(progress), err=True)
        return
    with Progress(TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), console=console) as bar:
        task = bar.add_task("training")
        yield lambda p: bar.update(task, completed=p.step, total=p.steps, description=f"training, loss {p.loss:.3f}")


def model_card(name: str, facts: dict[str, Any]) -> str:
    """What a reader must know of an encoder made by the command."""
    retrieval, pairs, recipe = facts["retrieval"], facts["pairs"], facts["recipe"]
    settings = "\n".join(f"- {setting}: {value}" for setting, value in recipe.items())
    return f"""# Sentence encoder trained with `wmbench train-encoder`

Use it as `{name}`.

- started from: {facts["encoder"]}
- pairs: {pairs["file"]}, {pairs["training"]} for training, {pairs["held_out"]} kept apart
- objective: InfoNCE from anchors to the positives of their batch, AdamW, warm-up, linear decay
- paraphrase retrieval, 1 in {retrieval["candidates"]}: {retrieval["before"]:.1%} before, {retrieval["after"]:.1%} after
- mean loss by epoch: {", ".join(f"{loss:.3f}" for loss in facts["loss_by_epoch"])}

## Recipe
{settings}

The licence follows from the pairs and from what the training started with; state it here before you share the encoder.
"""
