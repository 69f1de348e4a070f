"""`wmbench conform`"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wmbench.cli.invocation import Invocation, global_options, json_option, note, print_json
from wmbench.console import open_console
from wmbench.errors import ConfigError, PluginError, UnknownNameError

if TYPE_CHECKING:
    from wmbench.host import Host, Registry

KINDS = ("scheme", "attack", "backbone", "encoder")
BACKBONES = ("tiny", "tiny-block", "mini", "mini-full")
FAILED = "failed"
_STRONGER = "marked texts score higher"
_ERROR = re.compile(r"[\w.]*(Error|Exception|Exit): ")
"""How a reason begins where a check could not come to its end."""
_STYLES = {"passed": "green", FAILED: "bold red"}

Record = Mapping[str, Any]


@click.command()
@click.argument("name")
@click.option("--kind", type=click.Choice(KINDS), help="What NAME is, if several things have that name.")
@click.option(
    "-S", "--set", "settings", metavar="NAME=VALUE", multiple=True, help="Setting to test with; may be repeated."
)
@click.option(
    "--backbone",
    "backbones",
    type=click.Choice(BACKBONES),
    multiple=True,
    help="Backbone to test a scheme on; may be repeated (default: tiny and tiny-block).",
)
@click.option(
    "--tolerance",
    type=float,
    help="How much a backbone's logits or an encoder's vectors may depend on the batch (GPU, bfloat16).",
)
@json_option
@global_options
@click.pass_obj
def conform(
    invocation: Invocation,
    /,
    name: str,
    kind: str | None,
    settings: tuple[str, ...],
    backbones: tuple[str, ...],
    tolerance: float | None,
    as_json: bool,
) -> int:
    """Check a plugin against the contract of its kind, and list which checks pass.

    NAME is a scheme, attack, backbone or encoder, installed or given with --plugin. These are the suites of
    wmbench.testing, run by pytest; the texts are short, so a scheme may need a stronger setting than its default.
    """
    from wmbench.settings import parse_overrides

    invocation.warn_about_broken_plugins()
    chosen = parse_overrides(settings, "-S")
    kind = _require(invocation.host, name, kind, chosen)
    if backbones and kind != "scheme":
        raise click.UsageError("--backbone is for schemes.")
    if tolerance is not None and kind not in ("backbone", "encoder"):
        raise click.UsageError("--tolerance is for backbones and encoders.")
    if importlib.util.find_spec("pytest") is None:
        raise ConfigError("the contract suites need pytest", hint="pip install 'wmbench[testing]'")
    task = {
        "kind": kind,
        "name": name,
        "plugins": [str(Path(file).resolve()) for file in invocation.plugin_files],
        "settings": chosen,
        "backbones": list(backbones or BACKBONES[:2]),
        "tolerance": tolerance,
    }
    checks = list(_watched(_run(task), f"{kind} {name}"))
    failed = [check for check in checks if check["outcome"] == FAILED]
    if as_json:
        counts = Counter(check["outcome"] for check in checks)
        print_json({"kind": kind, "name": name, "conforms": not failed, "counts": counts, "checks": checks})
    else:
        _print(f"{kind} {name}", checks)
    if invocation.debug:
        for check in failed:
            note(f"\n{_title(check)}\n{check['details']}")
    if any(check["check"] == _STRONGER and not _ERROR.match(check["reason"] or "") for check in failed):
        note("the texts of the suite have 40 tokens (64 on mini): a stronger setting, by -S, may show the mark")
    return int(bool(failed))


# --- what is tested --------------------------------------------------------------------------------------------


def _require(host: Host, name: str, kind: str | None, settings: Mapping[str, Any]) -> str:
    """The kind of what is named; a wrong name or setting is told before pytest starts."""
    registries: dict[str, Registry[Any]] = {
        "scheme": host.schemes,
        "attack": host.attacks,
        "backbone": host.backbones,
        "encoder": host.encoders,
    }
    kind = kind or _kind(name, registries)
    if kind == "backbone":
        from wmbench.bench.plan import resolve_runs
        from wmbench.config import load_config

        options = {"schemes": ["none"], "attacks": [], "backbone": {"name": name, "params": settings}}
        resolve_runs(load_config(options=options), host)  # it knows directories, too
        return kind
    from wmbench.bench.resolved import settings_of

    settings_of(registries[kind].resolve(name)[0], kind, settings)
    return kind


def _kind(name: str, registries: Mapping[str, Registry[Any]]) -> str:
    found = [kind for kind, registry in registries.items() if _is_known(name, registry)]
    if not found:
        known = {name for registry in registries.values() for name in registry}
        raise UnknownNameError("scheme, attack, backbone or encoder", name, known)
    if len(found) > 1:
        raise ConfigError(
            f"{name!r} is the name of several things",
            why=", ".join(f"{kind} of plugin {registries[kind].resolve(name)[0].plugin}" for kind in found),
            hint=f"add --kind {found[0]}",
        )
    return found[0]


def _is_known(name: str, registry: Registry[Any]) -> bool:
    try:
        registry.resolve(name)
    except ConfigError:
        return False
    return True


# --- pytest ----------------------------------------------------------------------------------------------------


def _run(task: Mapping[str, Any]) -> Iterator[Record]:
    """What the suite says, while it runs. In a process of its own: neither settings of pytest that lie around here nor
    a plugin that crashes must change the answer."""
    read, write = os.pipe()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment |= {
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join(path or "." for path in sys.path),
        "WMBENCH_CONFORM": json.dumps(task),
        "WMBENCH_CONFORM_OUTPUT": str(write),
    }
    with tempfile.TemporaryDirectory() as folder, os.fdopen(read, encoding="utf-8") as told:
        log = Path(folder, "log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "pytest", *_options(folder), "--pyargs", "wmbench.testing.subject"],
                env=environment,
                pass_fds=[write],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        os.close(write)
        try:
            for line in told:
                yield json.loads(line)
        finally:
            if process.poll() is None:
                process.terminate()
            code = process.wait()
        if code not in (0, 1):  # all passed, some failed
            raise PluginError(
                f"the contract suite of {task['name']!r} ended before its end",
                why=f"pytest ended with {code}",
                where="\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:]),
                hint="report it to the plugin's author",
            )


def _options(folder: str) -> list[str]:
    alone = ["--noconftest", "-c", os.devnull, "--rootdir", folder, "-p", "no:cacheprovider"]
    return [*alone, "-p", "wmbench.testing.plugin", "-p", "wmbench.testing.reporting"]


def _watched(told: Iterator[Record], label: str) -> Iterator[Record]:
    """The checks, with a progress bar once their number is known."""
    from wmbench.observers import ProgressObserver, watched

    first = next(told, {"total": 0})
    if "total" not in first:
        yield first
    with watched(ProgressObserver(), label, first.get("total", 0), "check") as advance:
        for record in told:
            if "check" in record:
                advance(1)
                yield record


# --- the answer ------------------------------------------------------------------------------------------------


def _title(check: Record) -> str:
    return f"{check['check']} ({check['backbone']})" if check["backbone"] else str(check["check"])


def _print(subject: str, checks: Sequence[Record]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from wmbench.report.evidence import printable

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("check", "result", "reason"):
        table.add_column(column, overflow="fold", no_wrap=column == "result")
    causes: dict[str, str] = {}
    for check in checks:
        outcome = Text(check["outcome"], style=_STYLES.get(check["outcome"], "dim"))
        reason = check["reason"] or ""
        if check["outcome"] == FAILED and (first := causes.setdefault(reason, _title(check))) != _title(check):
            reason = f"as: {first}"
        table.add_row(Text(_title(check)), outcome, Text(printable(reason)))
    console = open_console(120)
    console.print(table)
    counts = Counter(check["outcome"] for check in checks)
    verdict = "breaks its contract" if counts[FAILED] else "keeps its contract"
    console.print(f"{subject} {verdict}: " + ", ".join(f"{n} {outcome}" for outcome, n in counts.items()))
