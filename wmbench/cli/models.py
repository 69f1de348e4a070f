"""`wmbench models`"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, print_json, print_table
from wmbench.errors import IntegrityError

if TYPE_CHECKING:
    from wmbench.bench.plan import RunPlan
    from wmbench.runtime.backbone import Backbone

_TOLERANCE = 1e-3
"""Difference of logits in float32 above which padding or the cache is broken, not just rounded."""


@click.group()
def models() -> None:
    """Check a model directory: ids, frequencies, padding, sizes, cost."""


@models.command()
@click.argument("model")
@click.option(
    "--scheme", metavar="NAME", default="none", help="Scheme whose cost per token is counted (default: none)."
)
@click.option("-S", "--set", "scheme_settings", metavar="NAME=VALUE", multiple=True, help="Scheme setting.")
@click.option(
    "-B", "--backbone-set", "backbone_settings", metavar="NAME=VALUE", multiple=True, help="Backbone setting."
)
@click.option(
    "-D", "--decoding-set", "decoding_settings", metavar="NAME=VALUE", multiple=True, help="Decoding setting."
)
@click.option("--device", metavar="NAME", help="cpu, cuda, cuda:1, ...; split: all GPUs. Short for -B device=NAME.")
@json_option
@global_options
@click.pass_obj
def check(invocation: Invocation, /, model: str, scheme: str, as_json: bool, **options: Any) -> None:
    """Load MODEL (a registered name or a directory) and check it; nothing is generated.

    Strict loading, special ids, rotary frequencies, padded batches and the prefix cache; then its sizes, and what a
    token costs under a scheme.
    """
    from wmbench.bench.plan import resolve_one
    from wmbench.cli.options import config_from_options

    config = config_from_options(backbone=model, schemes=[scheme], no_attacks=True, **options)
    plan = resolve_one(config, invocation.host)

    from wmbench.bench.build import Builder

    backbone = Builder(invocation.host).backbone(plan.backbone)
    report = {
        "model": _model(plan, backbone),
        "ids": _ids(backbone),
        "checks": _checks(backbone),
        "cost": _cost(plan, backbone),
    }
    if as_json:
        print_json(report)
    else:
        for title, fields in report.items():
            click.echo(title)
            print_table([(name.replace("_", " "), _shown(value)) for name, value in fields.items()])


def _model(plan: RunPlan, backbone: Backbone) -> dict[str, Any]:
    from wmbench.runtime.selfcheck import sizes

    fields: dict[str, Any] = {
        "backbone": plan.backbone.info.name,
        "name": backbone.name,
        "device": str(backbone.device),
        "longest_canvas": backbone.max_length,
        "attention": _attention(backbone),
        "fingerprint": backbone.fingerprint,
    }
    if (found := sizes(backbone)) is not None:
        fields |= {"parameters": found.parameters, "active_per_position": found.active, "bytes": found.bytes}
    return fields


def _attention(backbone: Backbone) -> str:
    attention = backbone.attention
    if attention.block_length is None:
        return "full"
    if attention.earlier == "merged":
        return f"units of {attention.block_length}, all earlier ones merged"
    return f"block-causal, blocks of {attention.block_length} from the {attention.origin}"


def _ids(backbone: Backbone) -> dict[str, Any]:
    codec: Any = backbone.codec
    fields: dict[str, Any] = {"mask": {"id": backbone.mask_id}, "ends": sorted(backbone.eos_ids)}
    if (ids := getattr(codec, "ids", None)) is not None:
        fields["mask"] |= {"token": codec.token_of(ids.mask), "found_in": ids.mask_source}
        fields["ends"] = [{"id": i, "token": codec.token_of(i)} for i in sorted(ids.ends)]
        fields["prompt_layout"] = codec.layout
    fields |= {"tokenizer": codec.size, "logits": backbone.vocab_size, "banned": len(backbone.banned_ids)}
    return fields


def _checks(backbone: Backbone) -> dict[str, Any]:
    from wmbench.runtime.selfcheck import padding_error, prefix_error

    model = getattr(getattr(backbone, "carrier", backbone), "model", None)
    if model is not None:
        _refuse_broken_numbers(model)
    checks: dict[str, Any] = {"padding": padding_error(backbone)}
    if (error := prefix_error(backbone)) is not None:
        checks["prefix_cache"] = error
    if (carrier := getattr(backbone, "carrier", None)) is not None:
        from wmbench.runtime.backbones.hf.carrier import check_frequencies

        checks["rotary"] = check_frequencies(carrier.model, carrier.settings)
    if model is not None and next(model.parameters()).element_size() >= 4:  # narrower numbers round too much
        for name in checks.keys() - {"rotary"}:
            if not checks[name] <= _TOLERANCE:  # nor may it be no number at all
                raise IntegrityError(
                    f"{name.replace('_', ' ')} changes the logits",
                    why=f"by up to {checks[name]:.3g}; rounding explains {_TOLERANCE}",
                    hint="are these the weights as published, and the versions of constraints.txt?",
                )
    return checks


def _refuse_broken_numbers(model: Any) -> None:
    """A file of the right shape may still be damaged inside."""
    for name, parameter in model.named_parameters():
        if not parameter.isfinite().all():
            raise IntegrityError(
                f"{name} holds values that are not numbers",
                why="its file is damaged, or it overflows the chosen dtype",
                hint="download the weights again, or choose another dtype: -B dtype=bfloat16",
            )


def _cost(plan: RunPlan, backbone: Backbone) -> dict[str, Any]:
    from wmbench.bench.counting import PROMPT_TOKENS, count_cost
    from wmbench.runtime.selfcheck import sizes

    cost = count_cost(plan, backbone.attention, backbone.logit_shift)
    fields: dict[str, Any] = {
        "scheme": plan.scheme.info.name,
        "answer": f"{plan.decoding.max_new_tokens} tokens after a prompt of {PROMPT_TOKENS}",
        "forwards_per_token": round(cost.forwards, 2),
        "positions_per_token": round(cost.positions, 1),
        "head_rows_per_token": round(cost.head_rows, 1),
    }
    if (found := sizes(backbone)) is not None:
        operations = 2 * (found.active * cost.positions + found.head * cost.head_rows)
        fields["gflop_per_token"] = round(operations / 1e9, 3)
    fields["counted"] = "on a random stand-in of the same shape; a real model repeats candidates and costs less"
    return fields


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_shown(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(_shown(part) for part in value)
    if isinstance(value, float):
        return f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else repr(value)[1:-1] if isinstance(value, str) else str(value)
