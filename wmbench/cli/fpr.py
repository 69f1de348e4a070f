"""`wmbench analyse fpr`"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from wmbench.bench.derived import digest
from wmbench.cli.invocation import Invocation, global_options, json_option, note, print_json
from wmbench.cli.options import config_from_options, normalise_option, scheme_options

if TYPE_CHECKING:
    from wmbench.bench.build import Builder
    from wmbench.bench.passages import Passages
    from wmbench.bench.plan import RunPlan


@click.command("fpr")
@click.option("--scheme", "schemes", metavar="NAME", multiple=True, required=True, help="Scheme; may be repeated.")
@scheme_options
@click.option(
    "--texts",
    "files",
    metavar="FILE",
    multiple=True,
    required=True,
    help="Passages, .jsonl or .jsonl.gz: text, and document (or doc) to tell documents apart; may be repeated.",
)
@click.option("--documents", type=click.IntRange(2), help="How many documents to take passages from (default: all).")
@click.option("--keys", type=click.IntRange(1), default=25, show_default=True, help="Keys, derived from yours.")
@normalise_option
@click.option("--output", metavar="FOLDER", help="Folder that keeps the features (default: runs).")
@json_option
@global_options
@click.pass_obj
def fpr(
    invocation: Invocation,
    /,
    schemes: tuple[str, ...],
    files: tuple[str, ...],
    documents: int | None,
    keys: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure false positives on passages of your own, such as human text, under many keys. Prints Markdown.

    Half of the documents calibrate, the passages of the other half are judged. Features are kept, so that further keys
    need no encoder.
    """
    from wmbench.bench.build import Builder
    from wmbench.bench.passages import read_passages
    from wmbench.bench.plan import resolve_runs

    config = config_from_options(schemes=schemes, no_attacks=True, **options)
    invocation.warn_about_broken_plugins()
    plans = resolve_runs(config, invocation.host)
    builder = Builder(invocation.host, note)
    passages = read_passages(files, builder.codec(plans[0].backbone), plans[0].null_lengths, documents)
    passages.require_halves()
    results = [_measured(plan, builder, passages, keys) for plan in plans]
    if as_json:
        print_json({"results": results})
    else:
        for line in markdown(results):
            click.echo(line)


def _measured(plan: RunPlan, builder: Builder, passages: Passages, keys: int) -> dict[str, Any]:
    from wmbench.bench.detector import Detector
    from wmbench.bench.packed import kept_packed
    from wmbench.bench.passages import judged, told
    from wmbench.observers import ProgressObserver, watched

    detector, progress = Detector(plan, builder, builder.codec(plan.backbone)), ProgressObserver()
    detector.hooks.require("score", "be measured")
    key, name = builder.key(plan), plan.scheme.label
    tried = [key.derive(f"false positives {number}") for number in range(keys)] if key else [None]
    made_of = {"texts": passages.digest, "features": detector.features_identity}
    folder = plan.config.output / ".cache" / "passages" / digest(made_of)[:10]
    with watched(progress, f"{name}: features", len(passages)) as advance:
        features = kept_packed(folder, "passages", made_of, lambda: told(detector.features(passages.texts), advance))
    with watched(progress, f"{name}: keys", len(tried), "key") as advance:
        found = judged(detector, passages, features, tried, advance)
    return {**found, "tokens": list(plan.null_lengths)}


def markdown(results: list[dict[str, Any]]) -> Iterator[str]:
    """One table over schemes and levels, one by source when there are several."""
    yield "| scheme | encoder | calibrated on | judged | level | FPR over keys [95%] | keys from - to | keys above |"
    yield "|---|---|---|---|---|---|---|---|"
    for result in results:
        for level, found in result["fpr"].items():
            sizes = [f"{result[side]['passages']:,}" for side in ("calibration", "heldout")]
            cells = [result["scheme"], result["settings"].get("encoder", "n/a"), *sizes, f"{float(level):.1%}"]
            yield f"| {' | '.join([*cells, *_figures(found, float(level), result['unresolved'].get(level))])} |"
    first = results[0]
    documents = [first[side]["documents"] for side in ("calibration", "heldout")]
    yield ""
    yield (
        f"Passages of {'-'.join(map(str, first['tokens']))} tokens from {documents[0]:,} + {documents[1]:,} documents. "
        "Intervals resample keys and documents. Keys above: those whose own 95% interval (Clopper-Pearson over "
        "passages) lies above the level."
    )
    if len(first["sources"]) > 1:
        yield ""
        yield (
            "| source | judged | "
            + " | ".join(f"{r['scheme']}, FPR at {t}" for r in results for t in _levels(r))
            + " |"
        )
        yield "|---|---|" + "---|" * sum(len(_levels(result)) for result in results)
        for source, found in first["sources"].items():
            rates = [f"{result['sources'][source]['fpr'][t]:.2%}" for result in results for t in _levels(result)]
            yield f"| {source} | {found['passages']:,} | {' | '.join(rates)} |"


def _figures(found: Mapping[str, Any] | None, level: float, hint: str | None) -> list[str]:
    if found is None:
        return [f"n/a ({hint})", "", ""]
    above = sum(rate["low"] > level for rate in found["texts_per_key"])
    interval = f"{found['estimate']:.2%} [{found['low']:.2%}, {found['high']:.2%}]"
    return [
        interval,
        f"{min(found['per_key']):.2%} - {max(found['per_key']):.2%}",
        f"{above} of {len(found['per_key'])}",
    ]


def _levels(result: Mapping[str, Any]) -> list[str]:
    return [level for level, found in result["fpr"].items() if found is not None]
