"""Options shared by the commands that build a run configuration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from wmbench.cli.invocation import print_table

if TYPE_CHECKING:
    from wmbench.bench.plan import RunPlan
    from wmbench.config import RunConfig

Command = TypeVar("Command", bound=Callable[..., Any])

normalise_option = click.option(
    "--normalise/--no-normalise",
    default=None,
    help="Undo look-alike letters, invisible characters and odd spaces before detection, in null texts too.",
)

_MODEL_HELP = "Diffusion language model, or the directory of one (default: mini, else tiny)"
_BACKBONE = click.option("--backbone", "--model", "backbone", metavar="NAME", help=f"{_MODEL_HELP}.")
_BACKBONES = click.option(
    "--backbone", "--model", "backbones", metavar="NAME", multiple=True, help=f"{_MODEL_HELP}; may be repeated."
)
_BACKBONE_SET = click.option(
    "-B", "--backbone-set", "backbone_settings", metavar="NAME=VALUE", multiple=True, help="Backbone setting."
)
_SEED = click.option("--seed", type=int, help="Seed of all randomness (default: 0).")
_DEVICE = click.option(
    "--device", metavar="NAME", help="cpu, cuda, cuda:1, ...; split: all GPUs. Short for -B device=NAME."
)
_ATTACK = click.option(
    "--attack",
    "attacks",
    metavar="NAME[:STRENGTH]",
    multiple=True,
    help="Attack; may be repeated; NAME:grid is a strength curve, 'FIRST|SECOND' one attack after the other; "
    "`all` means all that can work here, `local` the free ones, `few` four of them.",
)
_ATTACK_SET = click.option(
    "-A", "--attack-set", "attack_settings", metavar="ATTACK.NAME=VALUE", multiple=True, help="Attack setting."
)
_FAILURE_LIMIT = click.option(
    "--failure-limit", type=float, help="Share of failed items above which the exit code is 1 (default: 0.05)."
)
_BUDGETS = [
    click.option("--max-calls", type=int, help="Budget of calls for all LLM attacks of this command together."),
    click.option(
        "--max-cost", type=float, help="Budget of money for them; needs the attacks' settings price_in and price_out."
    ),
]

_SETTINGS = [
    click.option(
        "-S",
        "--set",
        "scheme_settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="Scheme setting; with several schemes write SCHEME.NAME=VALUE.",
    ),
    _BACKBONE_SET,
    click.option(
        "-D",
        "--decoding-set",
        "decoding_settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="Decoding setting, such as temperature=0.7.",
    ),
    click.option(
        "--key", metavar="SOURCE", help="env:VARIABLE or file:PATH (default: $WMBENCH_KEY, else your key file)."
    ),
    click.option("--config", "config_file", metavar="FILE", help="YAML or TOML file with the same settings."),
]

_DECODING = [
    _SEED,
    click.option("--batch-size", type=int, help="Samples decoded together (default: 8); never changes a text."),
    _DEVICE,
    click.option("--compile", "compiled", is_flag=True, help="Compile the model. Short for -B compile=true."),
    click.option(
        "--no-chat-template", is_flag=True, help="Use prompts as they are, without layout. Short for -B prompt=plain."
    ),
]

_NULLS = [
    click.option(
        "--nulls", metavar="NAME", multiple=True, help="Null texts; may be repeated; the first set calibrates."
    ),
    click.option("--calibration-texts", type=int, help="Null texts that p-values are ranked among (default: 5300)."),
    click.option("--heldout-texts", type=int, help="Null texts that false positives are measured on (default: 1000)."),
    click.option("--alpha", type=float, help="Level at which a text counts as detected (default: 0.01)."),
    normalise_option,
    click.option("--output", metavar="FOLDER", help="Folder that holds the run folders (default: runs)."),
]

_RUN = [
    click.option(
        "--scheme", "schemes", metavar="NAME", multiple=True, help="Watermark scheme; may be repeated; `all` means all."
    ),
    _ATTACK,
    click.option("--no-attacks", is_flag=True, help="Run no attacks."),
    _ATTACK_SET,
    click.option(
        "--dataset",
        "datasets",
        metavar="NAME",
        multiple=True,
        help="Prompts: a registered name, jsonl:PATH or text:PROMPT; may be repeated.",
    ),
    click.option("--samples", type=int, help="Prompts taken from each dataset."),
    click.option("--top-up", is_flag=True, help="Answer further prompts until --samples texts are kept."),
    click.option(
        "--retries", type=int, help="How often to answer a prompt again when the filters drop its text (default: 0)."
    ),
    click.option(
        "-F",
        "--filter-set",
        "filter_settings",
        metavar="NAME=VALUE",
        multiple=True,
        help="Filter setting, such as min_tokens=100.",
    ),
    click.option(
        "--prf",
        type=click.Choice(["hmac", "official"]),
        help="For every scheme that has this setting: hmac (your key) or official (as published, without a key).",
    ),
    click.option("--keys", type=int, help="Wrong keys that the controls average over (default: 1)."),
    click.option(
        "--attacked-nulls",
        type=int,
        help="Held-out null texts to attack as well, to measure false positives (default: 0).",
    ),
    click.option(
        "--length",
        "lengths",
        type=int,
        multiple=True,
        help="Also detect from the first INTEGER tokens only, to see how many it takes; may be repeated.",
    ),
    click.option("--judge", metavar="NAME", help="Judge of fluency: mini-judge (default) or hf:MODEL."),
    click.option(
        "--preset", metavar="NAME", default="quick", show_default=True, help="Named defaults; your own settings win."
    ),
    _FAILURE_LIMIT,
    click.option("--workers", type=int, help="Processes that share the work (default: 1); never changes a result."),
    click.option("--retry-failed", is_flag=True, help="Retry the texts on which an attack failed before."),
    *_BUDGETS,
    *_NULLS,
]


def _decorate(command: Command, options: Sequence[Callable[[Any], Any]]) -> Command:
    for option in reversed(options):
        command = option(command)
    return command


def scheme_options(command: Command) -> Command:
    """What decides how a text is scored."""
    return _decorate(command, [_BACKBONE, *_SETTINGS])


def null_options(command: Command) -> Command:
    """What a text is compared with."""
    return _decorate(command, _NULLS)


def model_options(command: Command) -> Command:
    """What decides how a text is made."""
    return _decorate(command, [_BACKBONE, *_SETTINGS, *_DECODING])


def run_options(command: Command) -> Command:
    """What decides a whole run."""
    return _decorate(command, [*_RUN, _BACKBONES, *_SETTINGS, *_DECODING])


def attack_options(command: Command) -> Command:
    """What decides how texts are attacked."""
    models = [_BACKBONE, _BACKBONE_SET, _DEVICE]
    return _decorate(command, [_ATTACK, _ATTACK_SET, _SEED, *models, _FAILURE_LIMIT, *_BUDGETS])


def config_from_options(
    *,
    preset: str = "quick",
    config_file: str | None = None,
    no_attacks: bool = False,
    scheme_settings: tuple[str, ...] = (),
    attack_settings: tuple[str, ...] = (),
    backbone_settings: tuple[str, ...] = (),
    decoding_settings: tuple[str, ...] = (),
    filter_settings: tuple[str, ...] = (),
    top_up: bool = False,
    retry_failed: bool = False,
    device: str | None = None,
    compiled: bool = False,
    no_chat_template: bool = False,
    **options: Any,
) -> RunConfig:
    """The run configuration of a command's options; those that were not given are left to file and preset."""
    from wmbench.config import Overrides, load_config
    from wmbench.settings import parse_overrides

    given = {name: list(value) if isinstance(value, tuple) else value for name, value in options.items()}
    given = {name: value for name, value in given.items() if value not in (None, [])}
    if no_attacks:
        if given.get("attacks"):
            raise click.UsageError("--attack and --no-attacks exclude each other.")
        given["attacks"] = []
    given.update({name: True for name, flag in {"top_up": top_up, "retry_failed": retry_failed}.items() if flag})
    if filter_settings:
        given["filters"] = parse_overrides(filter_settings, "-F")
    short = {"device": device, "compile": compiled or None, "prompt": "plain" if no_chat_template else None}
    overrides = Overrides(
        schemes=parse_overrides(scheme_settings, "-S"),
        attacks=parse_overrides(attack_settings, "-A"),
        backbone={
            **{name: value for name, value in short.items() if value is not None},
            **parse_overrides(backbone_settings, "-B"),
        },
        decoding=parse_overrides(decoding_settings, "-D"),
    )
    return load_config(preset, config_file, given, overrides)


def print_plan(plan: RunPlan, *extra: tuple[str, str]) -> None:
    """A run as resolved: every setting that counts, defaults included."""
    scheme = plan.scheme.info
    caveat = f"  ({scheme.status})" if scheme.status else ""
    click.echo(f"{plan.title}{caveat}")
    print_table(
        [
            ("scheme", f"{scheme.alg_id or scheme.name}: {_settings(plan.scheme.dump())}"),
            ("backbone", _settings(plan.backbone.dump())),
            ("decoding", _settings(plan.decoding.model_dump(exclude_none=True))),
            ("samples", _samples(plan)),
            ("filters", _settings(plan.filters.model_dump())),
            ("attacks", _attacks(plan)),
            ("nulls", _nulls(plan)),
            *([("normalise", "before detection")] if plan.config.normalise else []),
            ("seed", str(plan.config.seed)),
            *extra,
        ]
    )


def _settings(settings: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items()) or "no settings"


def _samples(plan: RunPlan) -> str:
    config = plan.config
    kept = " kept, of at most " + str(plan.prompt_limit) if config.top_up else ""
    retried = f", each retried up to {config.retries} times" if config.retries else ""
    return f"{config.samples or 'all'}{kept}{retried}"


def _attacks(plan: RunPlan) -> str:
    """How many of each cost class, on how many texts, and which."""
    if not plan.attacks:
        return "none"
    config, costs = plan.config, Counter(attack.cost for attack in plan.attacks)
    counts = ", ".join(f"{count} {cost}" for cost, count in costs.items())
    nulls = f" and {config.attacked_nulls:,} null texts of every set" if config.attacked_nulls else ""
    labels = ", ".join(attack.label for attack in plan.attacks)
    return f"{counts}, each on {config.samples or 'all'} samples{nulls}: {labels}"


def _nulls(plan: RunPlan) -> str:
    config, (fewest, most) = plan.config, plan.null_lengths
    sets = ", ".join(null.label for null in plan.nulls)
    return f"{sets}: {config.calibration_texts:,} + {config.heldout_texts:,} held out, {fewest}-{most} tokens"
