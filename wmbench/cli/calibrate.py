"""`wmbench calibrate`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, note, print_json
from wmbench.cli.options import config_from_options, null_options, scheme_options
from wmbench.errors import ConfigError


@click.command()
@click.option("--scheme", metavar="NAME", required=True, help="Watermark scheme.")
@click.option("--out", metavar="FILE", required=True, help="Where to save the calibration (.npz).")
@scheme_options
@null_options
@json_option
@global_options
@click.pass_obj
def calibrate(invocation: Invocation, /, scheme: str, out: str, as_json: bool, **options: Any) -> None:
    """Score null texts under a key and save the result, for `wmbench detect`.

    Null texts and their features are shared with the runs in --output, so another key costs no encoder call.
    """
    from wmbench.bench.build import Builder
    from wmbench.bench.calibrating import make_calibration
    from wmbench.bench.detector import Detector
    from wmbench.bench.nulls import NullLibrary, NullSpec
    from wmbench.bench.plan import resolve_one
    from wmbench.detection import is_calibration
    from wmbench.disk import make_folder, require_writable

    path = Path(out)
    if path.is_dir():
        raise ConfigError("--out is a folder", where=out, hint="name a file, for instance calibration.npz")
    if path.exists() and not is_calibration(path):
        raise ConfigError(
            "--out is a file that is no calibration",
            where=out,
            why="only a calibration is replaced by a new one",
            hint="name another file, or remove this one",
        )
    config = config_from_options(schemes=[scheme], no_attacks=True, **options)
    invocation.warn_about_broken_plugins()
    plan = resolve_one(config, invocation.host)
    builder = Builder(invocation.host, note)
    builder.require_usable_key(plan)
    require_writable(config.output)
    detector = Detector(plan, builder, builder.codec(plan.backbone))
    detector.hooks.require("score", "be calibrated")
    key = builder.key(plan)
    detector.require_level(key, config.calibration_texts, config.alpha)
    make_folder(path.parent)  # that it cannot be made must not show up after the work
    nulls = NullSpec.all_of(plan, detector.codec)[0]
    calibration = make_calibration(detector, NullLibrary.beside(config.output, builder, note), nulls, key)
    calibration.save(path)
    if as_json:
        print_json({"file": str(path), "n": calibration.n0, "views": list(calibration.views), **calibration.metadata})
        return
    views = f"{len(calibration.views)} view{'s' if len(calibration.views) > 1 else ''}"
    click.echo(
        f"{path}: {scheme}, key {key.id if key else 'not used'}, {calibration.n0:,} texts of {nulls.label}, {views}; "
        f"the smallest p-value under Bonferroni is {calibration.smallest_alpha():.2g}"
    )
