"""The `wmbench` group: commands are imported when called, errors become messages and exit codes.

0 done, 1 finished with failures above the limit, 2 usage or configuration, 3 plugin, 4 integrity, 130 interrupted,
141 nobody reads the output.
"""

from __future__ import annotations

import difflib
import os
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

from wmbench import __version__
from wmbench.cli.invocation import Invocation, global_options
from wmbench.errors import Interrupted, PluginError, WmbenchError

if TYPE_CHECKING:
    from wmbench.host import PluginRecord

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("wmbench.cli.run:run", "Generate watermarked texts, attack them, and measure how well they are detected."),
    "generate": ("wmbench.cli.generate:generate", "Answer prompts and print the texts."),
    "calibrate": ("wmbench.cli.calibrate:calibrate", "Score null texts under a key and save the result."),
    "detect": ("wmbench.cli.detect:detect", "Look for a watermark in texts: p-value, verdict, evidence."),
    "attack": ("wmbench.cli.attack:attack", "Attack texts outside of a run and print the results."),
    "tune": ("wmbench.cli.tune:tune", "Search one setting of a scheme to a target quality or detection rate."),
    "sweep": ("wmbench.cli.sweep:sweep", "Measure a scheme over a grid of settings."),
    "analyse": ("wmbench.cli.analyse:analyse", "Run experiments of installed plugins that look inside a scheme."),
    "report": (
        "wmbench.cli.report:report",
        "Write a report on finished runs (offline HTML page, JSON, CSV, LaTeX, Markdown).",
    ),
    "view": ("wmbench.cli.view:view", "Show the report of finished runs in a browser, served to this machine only."),
    "compare": ("wmbench.cli.compare:compare", "Compare two runs on the prompts they share, with paired intervals."),
    "ls": ("wmbench.cli.listing:ls", "List schemes, attacks, backbones, datasets and encoders."),
    "plugins": ("wmbench.cli.listing:plugins", "List installed plugins, their hooks and load errors."),
    "models": ("wmbench.cli.models:models", "Check a model directory: ids, frequencies, padding, sizes, cost."),
    "validate": ("wmbench.cli.validate:validate", "Check a configuration and print the resolved plan."),
    "new": ("wmbench.cli.new:new", "Write a plugin package to start from: a scheme or an attack that works."),
    "conform": ("wmbench.cli.conform:conform", "Check a plugin against the contract of its kind."),
    "key": ("wmbench.cli.key:key", "Make a secret key, or print a key's id."),
}
"""Built-in commands: import path and one-line help, so that `wmbench --help` imports none of them."""

_RESUMABLE = ("run", "sweep", "tune")
_UNEXPECTED = 1
_INTERRUPTED = 130
_NOBODY_READS = 141  # as a shell counts a program that SIGPIPE ended


class LazyGroup(click.Group):
    """Knows its commands by name; imports one when it is called."""

    def make_context(self, *arguments: Any, **extra: Any) -> click.Context:
        with _broken_pipe_ends_it():
            return super().make_context(*arguments, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _broken_pipe_ends_it():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *sorted(self._plugin_commands(ctx))]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in COMMANDS:
            return _load(COMMANDS[name][0])
        found = self._plugin_commands(ctx).get(name)
        return _load(found[0], found[2]) if found else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """click's own would import every command to read its help."""
        own = [(name, summary) for name, (_, summary) in COMMANDS.items()]
        foreign = sorted((name, summary) for name, (_, summary, _) in self._plugin_commands(ctx).items())
        for title, rows in (("Commands", own), ("Commands of plugins", foreign)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = difflib.get_close_matches(name, self.list_commands(ctx), n=2, cutoff=0.5)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            raise click.UsageError(f"No such command {name!r}.{meant}", ctx)
        ctx.ensure_object(Invocation).command = name
        return super().resolve_command(ctx, args)

    def _plugin_commands(self, ctx: click.Context) -> dict[str, tuple[str, str, PluginRecord]]:
        commands = ctx.ensure_object(Invocation).host.commands
        return {name: found for name, found in commands.items() if name not in COMMANDS and " " not in name}


def _load(path: str, plugin: PluginRecord | None = None) -> click.Command:
    from wmbench.host import load_attribute

    command = load_attribute(path, plugin)
    if not isinstance(command, click.Command):
        raise PluginError(f"{path!r} is not a click command", hint=plugin.remedy if plugin else None)
    return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@global_options
@click.version_option(__version__, prog_name="wmbench")
def wmbench() -> None:
    """A plug-in benchmark for text watermarks on diffusion language models."""


def run_cli(arguments: Sequence[str] | None = None) -> int:
    """Run a command; every way it can end has an exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    with _terminate_like_interrupt(), _plain_warnings():
        try:
            code = _called(words)
            if sys.stdout is not None:
                sys.stdout.flush()
        except (BrokenPipeError, SystemExit) as error:
            if not _is_broken_pipe(error):
                raise
            _write_nowhere()
            return _NOBODY_READS
        return code


def _called(words: Sequence[str]) -> int:
    invocation = Invocation()
    try:
        result = wmbench.main(words, "wmbench", standalone_mode=False, obj=invocation)
        return result if isinstance(result, int) else 0
    except BaseException as error:
        if _is_broken_pipe(error):
            raise
        if invocation.debug and not isinstance(error, (click.ClickException, click.Abort)):
            traceback.print_exc()
        return _report(error, words, invocation.command)


@contextmanager
def _broken_pipe_ends_it() -> Iterator[None]:
    """click would forget why it exits."""
    try:
        yield
    except BrokenPipeError as error:
        raise SystemExit(_NOBODY_READS) from error


def _is_broken_pipe(error: BaseException) -> bool:
    """Whether the reader of the output has gone, as in `wmbench ls | head -1`. rich makes an exit of it, too."""
    reason = error.__context__ if isinstance(error, SystemExit) else error
    return isinstance(reason, BrokenPipeError)


def _write_nowhere() -> None:
    """Python writes what it still holds when it ends, and would complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            os.dup2(nowhere, stream.fileno())


def _report(error: BaseException, words: Sequence[str], command: str) -> int:
    """Print what, where, why and the next step; return the exit code."""
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        if command not in _RESUMABLE:
            click.echo("error: interrupted\n  next step: nothing was saved; the same command starts over", err=True)
            return _INTERRUPTED
        error = Interrupted("interrupted", hint="run the same command again: it resumes")
    if isinstance(error, WmbenchError):
        click.echo(f"error: {error}", err=True)
        if isinstance(error, Interrupted):
            click.echo(f"  command: {shlex.join(['wmbench', *words])}", err=True)
        return error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "wmbench"
        click.echo(f"error: {error.format_message()}\n  next step: {path} --help", err=True)
        return 2
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else _UNEXPECTED
    click.echo(
        f"error: wmbench failed unexpectedly\n  why: {type(error).__name__}: {error}\n"
        "  next step: repeat the command with --debug and report the traceback",
        err=True,
    )
    return _UNEXPECTED


@contextmanager
def _terminate_like_interrupt() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does: cancelled, and resumable."""

    def interrupt(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings without a source line, which says nothing to a user."""
    before = warnings.showwarning
    warnings.showwarning = lambda message, *_, **__: click.echo(f"warning: {message}", err=True)
    try:
        yield
    finally:
        warnings.showwarning = before
