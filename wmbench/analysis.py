"""For analysis commands of plugins: a scheme, a model, prompts and a key to experiment with, from the usual options.

    @click.command("my-figure")
    @experiment_options
    @click.pass_obj
    def my_figure(invocation, /, **options):
        experiment = Experiment.open(invocation, "my-figure", "my-scheme", options)
        for generation in experiment.decode(my_decide): ...
        experiment.write(result, [chart])

Register it as the command `analyse my-figure`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wmbench.plots import HINT, Spec, curve_with_band

if TYPE_CHECKING:
    from pydantic import BaseModel

    from wmbench.bench.plan import RunPlan
    from wmbench.cli.invocation import Invocation
    from wmbench.runtime.backbone import Backbone
    from wmbench.runtime.settings import Decoding
    from wmbench.runtime.step import Decide, Step
    from wmbench.types import Commit, Generation, Sample, SchemeContext

__all__ = ["Experiment", "curve_with_band", "experiment_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


def experiment_options(command: Command) -> Command:
    """Model, scheme settings, prompts, key, output."""
    from wmbench.cli.invocation import global_options
    from wmbench.cli.options import model_options

    for option in (
        click.option("--output", metavar="FOLDER", help="Folder of the results (default: runs/analyses/<name>)."),
        click.option("--prompts", "samples", type=click.IntRange(1), default=8, show_default=True, help="Prompts."),
        click.option("--dataset", metavar="NAME", help="Prompts: a registered name, jsonl:PATH or text:PROMPT."),
        model_options,
        global_options,
    ):
        command = option(command)
    return command


@dataclass(frozen=True)
class Experiment:
    """Everything loaded that an experiment decodes with."""

    name: str
    plan: RunPlan
    backbone: Backbone
    context: SchemeContext
    samples: Sequence[Sample]
    folder: Path

    @classmethod
    def open(cls, invocation: Invocation, name: str, scheme: str, options: Mapping[str, Any]) -> Experiment:
        from wmbench.cli.invocation import note
        from wmbench.cli.options import config_from_options

        given = dict(options)
        folder, dataset = Path(given.pop("output", None) or f"runs/analyses/{name}"), given.pop("dataset", None)
        config = config_from_options(schemes=[scheme], no_attacks=True, datasets=[dataset] if dataset else [], **given)
        invocation.warn_about_broken_plugins()

        from wmbench.bench.build import Builder
        from wmbench.bench.plan import resolve_runs
        from wmbench.bench.prompts import require_room
        from wmbench.disk import require_writable
        from wmbench.errors import ConfigError
        from wmbench.types import SchemeContext

        plan, *others = resolve_runs(config, invocation.host)
        if others:  # of a file that is meant for `wmbench run`
            titles = "; ".join(each.title for each in (plan, *others))
            raise ConfigError(
                "an experiment has one model and one set of prompts",
                why=f"chosen: {titles}",
                hint="name one --backbone and one --dataset",
            )
        require_writable(folder)
        builder = Builder(invocation.host, note)
        samples, backbone = builder.prompts(plan), builder.backbone(plan.backbone)
        require_room(samples, backbone, plan.decoding)
        decoding = plan.decoding
        context = SchemeContext(
            backbone.codec, builder.key(plan), builder.encoder, decoding.block_length, decoding.max_new_tokens
        )
        return cls(name, plan, backbone, context, samples, folder)

    @property
    def settings(self) -> BaseModel | None:
        """The scheme's, checked."""
        return self.plan.scheme.settings

    @property
    def decoding(self) -> Decoding:
        return self.plan.decoding

    def decode(self, decide: Decide, samples: Sequence[Sample] | None = None) -> Iterator[Generation]:
        """Answer the prompts with a decision of your own; the time left is shown."""
        from wmbench.observers import ProgressObserver
        from wmbench.runtime.loop import decode, make_engine

        config, asked = self.plan.config, self.samples if samples is None else samples
        progress = ProgressObserver()

        def watched(step: Step) -> Commit:
            commit = decide(step)
            progress.advance(len(commit.columns) - len(commit.remask_columns))
            return commit

        with progress.watching(f"{self.name} on {self.plan.backbone.label}", len(asked) * self.decoding.max_new_tokens):
            yield from decode(
                asked,
                make_engine(self.backbone, self.decoding),
                self.decoding,
                watched,
                seed=config.seed,
                batch_size=config.batch_size,
            )

    def write(self, result: Mapping[str, Any], charts: Sequence[Spec]) -> None:
        """<folder>/result.json with what it was made with, and plot.html."""
        from wmbench.bench.provenance import versions
        from wmbench.disk import make_folder, pretty_json, write_atomic
        from wmbench.report.still import still_page

        key, described = self.context.key, self.plan.describe()
        made_with = {
            "analysis": self.name,
            **{name: described[name] for name in ("scheme", "backbone", "dataset", "decoding", "seed")},
            "prompts": len(self.samples),
            "fingerprint": self.backbone.fingerprint,
            "key_id": key.id if key else None,
            "versions": versions(self.plan.plugins),
        }
        make_folder(self.folder)
        write_atomic(self.folder / "result.json", pretty_json({**made_with, "result": result}))
        page, drawn = still_page(
            title=self.name,
            lead=f"{self.plan.title}: {len(self.samples)} prompts.",
            backbone=self.plan.backbone.info.name,
            charts=charts,
        )
        if drawn:
            write_atomic(self.folder / "plot.html", page.encode())
        click.echo(f"written: {self.folder}" + ("" if drawn else f" ({HINT})"))
