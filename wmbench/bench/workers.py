"""A pool of processes that share the work of a run (`--workers N`).

A task is a module-level function of (run, payload) with plain data in and out; the parent alone writes files. Workers
build the run for themselves from the configuration: models are loaded once per worker, and keys come from their source
(file or environment variable), never through a pipe. Each uses as many threads as the parent, since rounding may differ
between thread counts; so the number of workers changes nothing but the time. A cluster engine would be another
`Executor`.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from wmbench import errors
from wmbench.config import RunConfig
from wmbench.errors import IntegrityError, WmbenchError

if TYPE_CHECKING:
    from wmbench.bench.plan import RunPlan
    from wmbench.bench.stages.base import Run

Payload = TypeVar("Payload")
Result = TypeVar("Result")


class Executor(Protocol):
    """Where the chunks of a stage are worked on when not in this process."""

    def map(
        self, task: Callable[[Run, Payload], Result], run: Run, payloads: Sequence[Payload]
    ) -> Iterator[tuple[int, Result]]:
        """Results with the number of their payload, as they are done."""


class RunAddress(NamedTuple):
    """What a worker builds a run from. Keys are in it by their source only."""

    config: str
    """As JSON: points of a sweep have configurations of their own."""
    number: int
    """Of the plan among those of the configuration."""

    @classmethod
    def of(cls, plan: RunPlan) -> RunAddress:
        return cls(json.dumps(plan.config.model_dump(mode="json")), plan.number)


@contextmanager
def worker_pool(workers: int, plugin_files: Sequence[str] = ()) -> Iterator[WorkerPool | None]:
    """None for one worker: this process works alone then."""
    if workers == 1:
        yield None
        return
    with WorkerPool(workers, plugin_files) as pool:
        yield pool


class WorkerPool:
    """Processes that live as long as the command; started when the first task comes."""

    def __init__(self, workers: int, plugin_files: Sequence[str] = ()) -> None:
        self._workers = workers
        self._plugin_files = tuple(plugin_files)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *reason: object) -> None:
        if self._pool is not None:
            for process in list(self._pool._processes.values()) if any(reason) else ():
                process.terminate()  # nobody waits for what it is doing
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    @property
    def started(self) -> bool:
        return self._pool is not None

    def map(
        self, task: Callable[[Run, Payload], Result], run: Run, payloads: Sequence[Payload]
    ) -> Iterator[tuple[int, Result]]:
        pool = self._started(run.threads)
        address = RunAddress.of(run.plan)
        futures: dict[Future[Any], int] = {
            pool.submit(_work, task, address, payload): number for number, payload in enumerate(payloads)
        }
        try:
            for future in as_completed(futures):
                result = future.result()
                if isinstance(result, _Failure):
                    raise result.error()
                yield futures[future], result
        except BrokenProcessPool as error:
            raise IntegrityError(
                "a worker process died",
                why="usually there was not enough memory for so many models",
                hint="run the same command with fewer --workers: it resumes",
            ) from error
        finally:
            for future in futures:
                future.cancel()

    def _started(self, threads: int) -> ProcessPoolExecutor:
        if self._pool is None:
            # Spawned: forking a process that has used torch's threads may hang.
            self._pool = ProcessPoolExecutor(
                self._workers,
                mp_context=multiprocessing.get_context("spawn"),
                initializer=_begin,
                initargs=(self._plugin_files, threads),
            )
        return self._pool


def in_order(results: Iterator[tuple[int, Result]]) -> Iterator[Result]:
    """Results in the order of their payloads; early ones wait for their turn."""
    waiting: dict[int, Result] = {}
    turn = 0
    for number, result in results:
        waiting[number] = result
        while turn in waiting:
            yield waiting.pop(turn)
            turn += 1


# --- in a worker -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error of wmbench as plain data."""

    kind: str
    message: str
    where: str | None
    why: str | None
    hint: str | None

    @classmethod
    def of(cls, error: WmbenchError) -> _Failure:
        # A name that nobody registered is the parent's finding first; its class has another signature.
        kind = "ConfigError" if isinstance(error, errors.UnknownNameError) else type(error).__name__
        return cls(kind, error.message, error.where, error.why, error.hint)

    def error(self) -> WmbenchError:
        kind: type[WmbenchError] = getattr(errors, self.kind, WmbenchError)
        return kind(self.message, where=self.where, why=self.why, hint=self.hint)


class _Worker:
    """What this process has built so far."""

    def __init__(self, plugin_files: tuple[str, ...]) -> None:
        from wmbench.bench.build import Builder
        from wmbench.host import Host

        self._host = Host.discover(plugin_files)
        self._builder = Builder(self._host)
        self._runs: dict[RunAddress, Run] = {}

    def run(self, address: RunAddress) -> Run:
        from wmbench.bench.pipeline import prepare
        from wmbench.bench.plan import resolve_runs

        if address not in self._runs:
            plans = resolve_runs(RunConfig.model_validate(json.loads(address.config)), self._host)
            self._runs[address] = prepare(plans[address.number], self._builder)
        return self._runs[address]


_worker: _Worker | None = None
_plugin_files: tuple[str, ...] = ()


def _begin(plugin_files: tuple[str, ...], threads: int) -> None:
    global _plugin_files
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches every process of the terminal; the parent decides
    import torch

    torch.set_num_threads(threads)
    _plugin_files = plugin_files


def _work(task: Callable[[Run, Any], Any], address: RunAddress, payload: Any) -> Any:
    global _worker
    try:
        if _worker is None:
            _worker = _Worker(_plugin_files)
        return task(_worker.run(address), payload)
    except WmbenchError as error:
        return _Failure.of(error)
