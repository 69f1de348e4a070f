"""`wmbench analyse null`"""

from __future__ import annotations

from typing import Any

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, note, print_json, print_table
from wmbench.cli.options import config_from_options, scheme_options

_CALIBRATION_SHARE = 0.7


@click.command("null")
@click.option("--scheme", "schemes", metavar="NAME", multiple=True, required=True, help="Scheme; may be repeated.")
@scheme_options
@click.option("--nulls", metavar="NAME", help="Null texts: a registered set, or texts:PATH (default: lab).")
@click.option("--texts", type=click.IntRange(10), default=1000, show_default=True, help="How many null texts.")
@click.option("--keys", type=click.IntRange(1), default=25, show_default=True, help="Keys, derived from yours.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the shuffled and uniform tokens.")
@click.option("--output", metavar="FOLDER", help="Folder that holds the null texts (default: runs).")
@json_option
@global_options
@click.pass_obj
def null(
    invocation: Invocation,
    /,
    schemes: tuple[str, ...],
    nulls: str | None,
    texts: int,
    keys: int,
    seed: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Check a scheme's analytic p-values on texts without a mark, and say where they are too small, and why.

    Rates are given for the texts, for the same tokens shuffled, and for uniform tokens, which is what a law describes.
    """
    from wmbench.bench.build import Builder
    from wmbench.bench.detector import Detector
    from wmbench.bench.null_law import NullTokens, examine, with_analytic_p
    from wmbench.bench.nulls import NullLibrary, NullSpec
    from wmbench.bench.plan import resolve_runs

    calibration = round(_CALIBRATION_SHARE * texts)  # the shares of a run, so that a document keeps its side
    config = config_from_options(
        schemes=schemes,
        no_attacks=True,
        nulls=[nulls] if nulls else None,
        calibration_texts=calibration,
        heldout_texts=texts - calibration,
        **options,
    )
    invocation.warn_about_broken_plugins()
    host = invocation.host
    chosen = [with_analytic_p(choice, host.schemes.resolve(choice.name)[0]) for choice in config.schemes]
    plans = resolve_runs(config.model_copy(update={"schemes": chosen}), host)
    builder = Builder(host, note)
    codec = builder.codec(plans[0].backbone)
    spec = NullSpec.all_of(plans[0], codec)[0]
    drawn = NullLibrary.beside(config.output, builder, note).texts(spec)
    tokens = NullTokens.of([text for side in drawn.values() for text in side.texts], codec, seed)
    results = []
    for plan in plans:
        note(f"{plan.scheme.label}: {texts:,} texts of {spec.label}, {keys} keys, three variants")
        key = builder.key(plan)
        tried = [key.derive(f"null law {number}") for number in range(keys)] if key else [None]
        results.append({**examine(Detector(plan, builder, codec), tokens, tried), "nulls": spec.identity})
        if not as_json:
            _print(results[-1])
    if as_json:
        print_json({"results": results})


def _print(result: dict[str, Any]) -> None:
    click.echo(
        f"{result['scheme']}: {result['texts']:,} texts of {result['tokens'][0]}-{result['tokens'][1]} tokens, "
        f"{result['keys']} keys; retokenising changes {result['changed_by_retokenisation']:.1%} of the texts"
    )
    rows = [
        (
            "",
            *(f"p <= {level}" for level in result["rates"]["text"]),
            "worst key at 0.01",
            "spread within, between keys",
        )
    ]
    for variant, rates in result["rates"].items():
        spread = result["spread"][variant]
        rows.append(
            (
                variant,
                *(f"{rate['estimate']:.3%} [{rate['low']:.3%}, {rate['high']:.3%}]" for rate in rates.values()),
                f"{rates['0.01']['worst_key']:.3%}",
                f"{spread['within_key']:.2f}, {spread['between_keys']:.2f}",
            )
        )
    print_table(rows)
    for name, strata in result["strata"].items():
        parts = ", ".join(f"{part['from']:.3g} to {part['to']:.3g}: {part['rate']:.3%}" for part in strata)
        click.echo(f"  p <= 0.01 by {name}: {parts}")
    for finding in result["findings"]:
        click.echo(f"  {finding}")
