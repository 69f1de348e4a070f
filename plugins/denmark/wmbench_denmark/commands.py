"""`wmbench analyse denmark-advantage` and `denmark-noise`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wmbench.analysis import Experiment, curve_with_band, experiment_options

if TYPE_CHECKING:
    from wmbench_denmark.advantage import Scope, Span
    from wmbench_denmark.config import DenMarkConfig
    from wmbench_denmark.decode import Decoder


@click.command("denmark-advantage")
@click.option(
    "--scope",
    type=click.Choice(["unit", "document"]),
    default="unit",
    show_default=True,
    help="Score units one by one, each continued to its end; or whole answers.",
)
@click.option(
    "--units", type=click.IntRange(1), default=2, show_default=True, help="Units of every answer (--scope unit)."
)
@click.option(
    "--continuations", type=click.IntRange(1), default=1, show_default=True, help="Paired continuations of every step."
)
@experiment_options
@click.pass_obj
def advantage(invocation: Any, /, scope: Scope, units: int, continuations: int, **options: Any) -> None:
    """How much each denoising step adds to DenMark's score (Proposition 2 of the paper).

    One trajectory follows the reference decoder, which commits the first candidate. At each step the best and the
    first candidate are both continued by DenMark with equal randomness. The advantages of all steps add up to the
    score that DenMark gains, which is checked. As a control the best candidate is replaced by the first one: every
    advantage must then be exactly 0.
    """
    from wmbench.errors import IntegrityError
    from wmbench_denmark.advantage import StepAdvantage, cumulative_curves, summary

    experiment = Experiment.open(invocation, "denmark-advantage", "denmark", options)
    config, decoder = _decoder(experiment)

    def measured(prompts: int, units: int, collapse: bool) -> list[Span]:
        meter = StepAdvantage(
            decoder,
            config,
            experiment.decoding,
            scope,
            continuations=continuations,
            units=units,
            collapse=collapse,
        )
        return meter.finish(list(experiment.decode(meter.decide, experiment.samples[:prompts])))

    control = [value for span in measured(1, 1, collapse=True) for value in span.advantages]
    if any(control):
        raise IntegrityError(
            "the collapse control is not 0",
            why=f"largest advantage of a candidate over itself: {max(map(abs, control)):g}",
            hint="the backbone or the encoder is not deterministic; run on the CPU",
        )
    spans = measured(len(experiment.samples), units, collapse=False)
    result = {"scope": scope, "continuations": continuations, "control_steps": len(control), **summary(spans)}
    identity, error = result["identity"], result["identity"]["standard_error"]
    click.echo(
        f"advantages of all steps: {identity['sum_of_advantages']:.4f} "
        f"[{result['low'][-1]:.4f}, {result['high'][-1]:.4f}] ({len(spans)} {scope}s of {result['prompts']} prompts)"
    )
    click.echo(
        f"score under DenMark {identity['score_under_pi']:.4f}, under the reference {identity['score_under_pi0']:.4f}: "
        f"difference {identity['score_under_pi'] - identity['score_under_pi0']:.4f}"
    )
    shown = f"{identity['gap']:+.4f}" + (f" = {identity['z']:+.1f} standard errors" if error else "")
    click.echo(f"identity: the two differ by {shown}; collapse control: {len(control)} steps, all exactly 0")
    curves = cumulative_curves(spans)
    thin = [
        {"x": t + 1, "y": value, "curve": i} for i, curve in enumerate(curves.tolist()) for t, value in enumerate(curve)
    ]
    mean = [
        {"x": t + 1, "y": y, "low": low, "high": high}
        for t, (y, low, high) in enumerate(zip(result["mean"], result["low"], result["high"], strict=True))
    ]
    experiment.write(result, [curve_with_band(thin, mean, f"step of the {scope}", "cumulative advantage")])


@click.command("denmark-noise")
@click.option(
    "--rollouts", type=click.IntRange(2), default=64, show_default=True, help="Rollouts per candidate and way."
)
@click.option("--every", type=click.IntRange(1), default=5, show_default=True, help="Look at every n-th step.")
@experiment_options
@click.pass_obj
def noise(invocation: Any, /, rollouts: int, every: int, **options: Any) -> None:
    """What common random numbers do to the variance of score differences between candidates.

    Rollouts are drawn with uniforms of each candidate's own, with common ones, with common ones and tokens sorted by
    probability, and with the common Gumbel noise of the authors' code. The smaller the variance of a difference, the
    fewer rollouts are needed to choose well.
    """
    from wmbench.errors import ConfigError
    from wmbench_denmark.noise import WAYS, NoiseMeter, by_masks, summary

    experiment = Experiment.open(invocation, "denmark-noise", "denmark", options)
    config, decoder = _decoder(experiment)
    meter = NoiseMeter(decoder, config, rollouts, every)
    for _ in experiment.decode(meter.decide):
        pass
    if not meter.found:
        raise ConfigError("no step has two different candidates", hint="raise candidates or candidate_temperature")
    result = {"rollouts": rollouts, "every": every, **summary(meter.found)}
    click.echo(f"variance of score differences, {result['steps']} steps of {result['prompts']} prompts")
    for way, row in result["ways"].items():
        ratio = f"{row['ratio']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"
        click.echo(f"  {way:12} {row['variance']:.2e}  {ratio} of independent")
    click.echo(f"  for comparison, variance of the candidates' mean scores: {result['spread_of_candidates']:.2e}")
    chart = {
        "width": 560,
        "height": 320,
        "data": {"values": by_masks(meter.found)},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {
                "field": "masks",
                "type": "quantitative",
                "title": "masks left in the unit",
                "axis": {"tickMinStep": 1},
            },
            "y": {
                "field": "variance",
                "type": "quantitative",
                "title": "variance of a score difference",
                "axis": {"format": ".1e"},
            },
            "color": {"field": "way", "type": "nominal", "title": None, "sort": list(WAYS)},
        },
    }
    experiment.write(result, [chart])


def _decoder(experiment: Experiment) -> tuple[DenMarkConfig, Decoder]:
    from wmbench_denmark.config import DenMarkConfig
    from wmbench_denmark.scheme import DenMark

    config = experiment.settings
    assert isinstance(config, DenMarkConfig)
    return config, DenMark(config, experiment.context).decoder
