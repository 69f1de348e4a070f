"""Observers of a run: pluggy wrappers around the run hooks that watch and never change a result."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from wmbench.bench.jsonl import cut_torn_line
from wmbench.disk import disk_errors
from wmbench.hookspecs import hookimpl

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from wmbench.runtime.step import Step
    from wmbench.types import Commit

PLAIN_LINE_SECONDS = 5.0


class TraceObserver:
    """Writes one JSON line per sample and step: what was filled, how sure the model was, what it has cost so far.

    Entropies (nats, of the base logits) are given where the scheme asked for the logits of its open cells; the
    observer itself never causes a forward. A sample that was interrupted is traced again from its first step.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def __enter__(self) -> TraceObserver:
        with disk_errors(self._path):
            cut_torn_line(self._path)
            self._file = self._path.open("a", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            with disk_errors(self._path):
                self._file.close()

    @hookimpl(wrapper=True)
    def decode_step(self, step: Step) -> Generator[None, Commit, Commit]:
        commit = yield
        if self._file is not None:
            with disk_errors(self._path):
                self._file.writelines(json.dumps(line) + "\n" for line in trace_lines(step, commit))
                self._file.flush()  # so that one can watch it, and a kill loses no whole step
        return commit


def trace_lines(step: Step, commit: Commit) -> Iterator[dict[str, Any]]:
    """One record per row of the step. Positions count from the first generated token."""
    entropies = _entropies(step)
    for r, row in enumerate(step.rows):
        mine = commit.rows == r
        columns = commit.columns[mine]
        yield {
            "id": row.sample.id,
            "step": row.step,
            "positions": (columns - row.start).tolist(),
            "tokens": commit.tokens[mine].tolist(),
            "entropies": [entropies.get((r, int(column))) for column in columns],
            "remasked": (commit.remask_columns[commit.remask_rows == r] - row.start).tolist(),
            "forwards": row.forward_rows,
        }


def _entropies(step: Step) -> dict[tuple[int, int], float]:
    logits = step.known_logits
    if logits is None:
        return {}
    import torch

    values = torch.special.entr(logits.double().softmax(-1)).sum(-1).cpu().numpy()
    cells = zip(step.open.rows.tolist(), step.open.columns.tolist(), strict=True)
    return dict(zip(cells, np.round(values, 6).tolist(), strict=True))


class ProgressObserver:
    """Tokens (or texts) per second and the time left: a bar on a terminal, else a line every few seconds."""

    def __init__(
        self,
        stream: IO[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
        line_seconds: float = PLAIN_LINE_SECONDS,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._line_seconds = line_seconds
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._label, self._unit, self._total, self._done = "", "token", 0, 0
        self._begun = self._last_line = 0.0

    @contextmanager
    def watching(self, label: str, total: int, unit: str = "token") -> Iterator[ProgressObserver]:
        """Show the progress of one stage; the total is an upper bound when samples may end early. Of a stage that
        counts texts nothing is said unless it takes long: most attacks are over at once."""
        self._label, self._total, self._done, self._unit = label, total, 0, unit
        self._begun = self._last_line = self._clock()
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        console = Console(file=self._stream)
        if not console.is_terminal or console.is_dumb_terminal:  # a bar would show nothing there
            yield self
            if unit == "token" or self._last_line > self._begun or self._is_due():
                self._print_line()
            return
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[speed]}"))
        with Progress(*columns, console=console, transient=True) as self._bar:
            self._task = self._bar.add_task(label, total=total, speed="")
            try:
                yield self
            finally:
                self._bar = None

    @hookimpl(wrapper=True)
    def decode_step(self, step: Step) -> Generator[None, Commit, Commit]:
        commit = yield
        self.advance(len(commit.columns) - len(commit.remask_columns))
        return commit

    def advance(self, count: int) -> None:
        """So many tokens or texts more are done, by whomever."""
        self._done += count
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, speed=self.speed())
        elif self._is_due():
            self._print_line()

    def _is_due(self) -> bool:
        return self._clock() - self._last_line >= self._line_seconds

    def speed(self) -> str:
        seconds = max(self._clock() - self._begun, 1e-9)
        if self._done <= 0:
            return "starting"
        rate = self._done / seconds
        left = max(self._total - self._done, 0) / rate
        return f"{rate:.1f} {self._unit}s/s, {1 / rate:.3g} s/{self._unit}, {_duration(left)} left"

    def _print_line(self) -> None:
        self._last_line = self._clock()
        print(f"{self._label}: {self._done}/{self._total} {self._unit}s, {self.speed()}", file=self._stream, flush=True)


@contextmanager
def watched(
    progress: ProgressObserver | None, label: str, total: int, unit: str = "text"
) -> Iterator[Callable[[int], None]]:
    """Shows how far the work has come; gives what is to be told how much more is done."""
    if progress is None:
        yield lambda _: None
        return
    with progress.watching(label, total, unit):
        yield progress.advance


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"
