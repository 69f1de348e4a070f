"""`wmbench detect`"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wmbench.cli.invocation import Invocation, global_options, note, nothing_piped
from wmbench.cli.options import config_from_options, normalise_option, scheme_options
from wmbench.errors import ConfigError

if TYPE_CHECKING:
    from wmbench.bench.detector import Detector
    from wmbench.bench.inputs import InputText
    from wmbench.bench.plan import RunPlan
    from wmbench.detection import Calibration
    from wmbench.report.page import JudgedText
    from wmbench.types import Verdict

_TEXTS_PER_CALL = 64
_MOST_NOT_TEXT = 0.01


@click.command()
@click.argument("sources", metavar="[FILE|FOLDER|-]...", nargs=-1)
@click.option("--scheme", metavar="NAME", help="Watermark scheme (default: the calibration's).")
@click.option("--calibration", "calibration_file", metavar="FILE", help="Made by `wmbench calibrate`, or a run's own.")
@click.option("--alpha", type=float, help="Level at which a text counts as detected (default: 0.01).")
@normalise_option
@scheme_options
@click.option("--evidence/--no-evidence", default=True, show_default=True, help="Show what each span contributes.")
@click.option("--html", "html_file", metavar="FILE", help="Also write a page that shows the texts with their evidence.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per text.")
@global_options
@click.pass_obj
def detect(
    invocation: Invocation,
    /,
    sources: tuple[str, ...],
    scheme: str | None,
    calibration_file: str | None,
    evidence: bool,
    html_file: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Look for a watermark in texts: p-value, verdict, evidence. No generator is needed.

    A file is one text; a .jsonl file has one text per line; a folder is searched for both; - is standard input. Scheme,
    settings and backbone are those of the calibration unless they are given.
    """
    from wmbench.bench.build import Builder
    from wmbench.bench.calibrating import described, load_calibration, require_fitting, standing
    from wmbench.bench.detector import Detector
    from wmbench.bench.inputs import STANDARD_INPUT, read_inputs

    if not sources and nothing_piped():
        raise click.UsageError("Give a file, a folder, or - for standard input.")
    if html_file is not None:
        _require_page(Path(html_file))
    calibration = load_calibration(calibration_file) if calibration_file else None
    invocation.warn_about_broken_plugins()
    plan = _plan(invocation, scheme, calibration, options)
    builder = Builder(invocation.host, note)
    detector = Detector(plan, builder, builder.codec(plan.backbone))
    detector.hooks.require("score", "detect anything")
    key = builder.existing_key(plan)
    key_id = key.id if key else None
    if calibration is not None:
        require_fitting(calibration, detector, key_id, str(calibration_file))
    rests_on = standing(plan.scheme.label, key_id, calibration)
    basis = {"scheme": plan.scheme.info.name, "key_id": key_id, "calibration": described(calibration)}
    screen = _Screen(rests_on)
    texts = read_inputs(sources or [STANDARD_INPUT])
    judged: list[JudgedText] = []
    count = 0
    while batch := list(islice(texts, _TEXTS_PER_CALL)):
        count += len(batch)
        features = next(detector.features([item.text for item in batch]))
        views = detector.score(features, key, evidence=evidence)
        verdicts = detector.detect(views, calibration, plan.config.alpha)
        for i, verdict in enumerate(verdicts):
            tokens = int(features.lengths[i])
            warnings = list(_warnings(batch[i].text, tokens, calibration))
            if as_json:
                _print_json(batch[i], verdict, {**basis, "tokens": tokens}, warnings)
            else:
                screen.show(batch[i], verdict, detector, warnings)
            if html_file is not None:
                judged.append(_judged(batch[i], verdict, detector, warnings))
    if not count:
        raise ConfigError("there is no text to judge", where=", ".join(sources) or "standard input")
    if html_file is not None:
        _write_page(Path(html_file), judged, plan.scheme.label, rests_on)


def _plan(
    invocation: Invocation, scheme: str | None, calibration: Calibration | None, options: dict[str, Any]
) -> RunPlan:
    """What the calibration was made with, below what the user says; differences are refused later, by name."""
    from wmbench.bench.calibrating import recorded_settings
    from wmbench.bench.plan import resolve_one

    recorded = recorded_settings(calibration, scheme)
    if "schemes" not in recorded:
        raise click.UsageError("Give --scheme, or a --calibration that names one.")
    given = {name: value for name, value in options.items() if value is not None}
    return resolve_one(config_from_options(no_attacks=True, **{**recorded, **given}), invocation.host)


def _warnings(text: str, tokens: int, calibration: Calibration | None) -> Iterator[str]:
    from wmbench.bench.calibrating import null_tokens
    from wmbench.bench.inputs import share_of_no_text

    if not text.strip():
        yield "there is no text in it"
    if share_of_no_text(text) > _MOST_NOT_TEXT:
        yield "it does not look like text: give the words of a document, not the bytes of its file"
    fewest, most = null_tokens(calibration) or (0, tokens)
    if not fewest <= tokens <= most:
        counted = f"{tokens} token{'s' if tokens != 1 else ''}"
        yield f"it has {counted}, the calibration stands for {fewest}-{most}: p may be off"


def _print_json(item: InputText, verdict: Verdict, basis: dict[str, Any], warnings: list[str]) -> None:
    """The fields are documented in docs/results.md; scripts rely on them."""
    from wmbench.bench.stages.detect import plain

    record = {
        "name": item.name,
        **({"attack": item.attack} if item.attack else {}),
        "detected": verdict.detected,
        "p_value": verdict.p_value,
        "score": verdict.score,
        "alpha": verdict.alpha,
        "view": verdict.view,
        "method": verdict.method,
        **basis,
        "details": plain(verdict.details),
        "evidence": [{"start": e.start, "end": e.end, "weight": e.weight, "label": e.label} for e in verdict.evidence],
        "warnings": warnings,
    }
    click.echo(json.dumps(record))


class _Screen:
    """Verdicts for a reader. What they rest on is said once, and a file of many texts is named once, above them."""

    def __init__(self, rests_on: str) -> None:
        self._rests_on = rests_on
        self._source = ""

    def show(self, item: InputText, verdict: Verdict, detector: Detector, warnings: list[str]) -> None:
        from rich.console import Console

        from wmbench.cli.evidence import coloured
        from wmbench.report.evidence import printable, spans

        if self._rests_on:
            note(printable(self._rests_on))
            self._rests_on = ""
        console = Console(highlight=False, markup=False)
        if item.source and item.source != self._source:
            console.print(printable(item.source), soft_wrap=True)
        self._source = item.source
        name = f"  {item.title.removeprefix(f'{item.source}:')}" if item.source else item.title
        found = "watermark found" if verdict.detected else "no watermark found"
        judged = f"{found} at alpha = {verdict.alpha:g} (p = {verdict.p_value:.3g}; {verdict.method})"
        style = "bold green" if verdict.detected else "bold"
        console.print(f"{printable(name)}: {judged}", style=style, soft_wrap=True)
        for warning in warnings:
            console.print(f"    warning: {warning}", style="yellow", soft_wrap=True)
        if console.is_terminal and verdict.evidence:
            ids = detector.codec.encode(detector.as_scored(item.text))
            console.print(coloured(spans(ids, verdict.evidence, detector.codec)))
            console.print("green speaks for the watermark, red against it", style="dim")


def _judged(item: InputText, verdict: Verdict, detector: Detector, warnings: list[str]) -> JudgedText:
    from wmbench.report.document import Passage, Piece
    from wmbench.report.evidence import SHOWN_TOKENS, spans
    from wmbench.report.page import JudgedText

    ids = detector.codec.encode(detector.as_scored(item.text))
    parts = spans(ids, verdict.evidence, detector.codec)
    pieces = [Piece.of(text, evidence) for text, evidence in parts]
    return JudgedText(
        name=item.title,
        p=verdict.p_value,
        detected=verdict.detected,
        alpha=verdict.alpha,
        method=verdict.method,
        view=verdict.view,
        warnings=warnings,
        passage=Passage(kind="text", pieces=pieces),
        is_cut=len(ids) > SHOWN_TOKENS,
    )


def _require_page(path: Path) -> None:
    """That it cannot be written must not show after the work."""
    from wmbench.disk import require_writable

    if path.is_dir():
        raise ConfigError("--html is a folder", where=str(path), hint="name a file, for instance evidence.html")
    require_writable(path.parent)


def _write_page(path: Path, judged: list[JudgedText], scheme: str, rests_on: str) -> None:
    from wmbench.disk import make_folder, write_atomic
    from wmbench.report.page import evidence_page

    make_folder(path.parent)
    write_atomic(path, evidence_page(judged, scheme, rests_on).encode())
    note(f"page: {path}")
