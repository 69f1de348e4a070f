"""`wmbench validate`"""

from __future__ import annotations

import os
from typing import Any

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, print_json
from wmbench.cli.options import config_from_options, print_plan, run_options


@click.command()
@click.argument("file", required=False)
@run_options
@json_option
@global_options
@click.pass_obj
def validate(invocation: Invocation, /, file: str | None, as_json: bool, **options: Any) -> None:
    """Check a configuration and print the resolved plan.

    FILE is a YAML or TOML configuration; options are those of `wmbench run`. No model is loaded and nothing written.
    """
    if file is not None and options["config_file"] is not None:
        raise click.UsageError("Give the configuration as FILE or with --config, not both.")
    options["config_file"] = file or options["config_file"]

    from wmbench.bench.build import load_key
    from wmbench.bench.plan import resolve_runs
    from wmbench.keys import DEFAULT_VARIABLE

    config = config_from_options(**options)
    plans = resolve_runs(config, invocation.host)
    is_named = config.key is not None or DEFAULT_VARIABLE in os.environ
    key_id = load_key(config).id if is_named and any(p.key_use == "secret" for p in plans) else None
    if as_json:
        print_json({"valid": True, "key_id": key_id, "runs": [plan.describe() for plan in plans]})
        return
    for plan in plans:
        uses_key = plan.key_use == "secret"
        print_plan(plan, ("key", (key_id or "your key file") if uses_key else "not used"))
