"""The folder of one run: who works in it, what it is, how far it has come.

runs/<scheme>_<model>_<dataset>_<spec hash>/
  run.json          what was asked, with what, status and counts; the same bytes however often it was interrupted
  prompts.jsonl     the prompts
  samples.jsonl     the truth: one generation per line
  filter.jsonl      which samples count, and why the others do not
  attacked/*.jsonl  one file per attack
  features/, scores/, calibration.npz, verdicts/, controls.npz, metrics.json
                    from texts to numbers; computed again when missing (docs/results.md)
  derived.json      from what each of those was computed
  timings.jsonl     when and how fast; differs from run to run, so it is kept apart
  trace.jsonl       only with --trace
  .lock, owner.json while a process works here
"""

from __future__ import annotations

import getpass
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

from filelock import FileLock, Timeout

from wmbench.bench.derived import DerivedFiles
from wmbench.bench.jsonl import JsonlFile
from wmbench.disk import disk_errors, make_folder, pretty_json, write_atomic
from wmbench.errors import IntegrityError

SCHEMA_VERSION: Final = 1
Status = Literal["started", "success", "partial", "error", "cancelled"]
"""started: running, or killed. success: all there. partial: finished, but items failed. error, cancelled: resumable."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that works in a folder."""

    pid: int
    host: str
    user: str
    started: str

    @classmethod
    def this_process(cls) -> Owner:
        try:
            user = getpass.getuser()
        except (KeyError, OSError):  # a container may run under a user id without a name
            user = str(os.getuid())
        return cls(os.getpid(), socket.gethostname(), user, now())

    def __str__(self) -> str:
        return f"process {self.pid} of {self.user} on {self.host}, since {self.started}"


class RunStore:
    """Reads and writes one run folder. Writing needs `locked()`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prompts = JsonlFile(folder / "prompts.jsonl")
        self.samples = JsonlFile(folder / "samples.jsonl")
        self.filter = JsonlFile(folder / "filter.jsonl")
        self.timings = JsonlFile(folder / "timings.jsonl")
        self.derived = DerivedFiles(folder)

    def attacked(self, label: str) -> JsonlFile:
        return JsonlFile(self.folder / "attacked" / f"{label}.jsonl")

    @property
    def trace_path(self) -> Path:
        return self.folder / "trace.jsonl"

    # --- run.json ----------------------------------------------------------------------------------------------

    def read_run(self) -> dict[str, Any] | None:
        path = self.folder / "run.json"
        try:
            run = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise IntegrityError(
                "run.json cannot be read", where=str(path), why=str(error), hint=_START_AFRESH
            ) from error
        version = run.get("schema_version") if isinstance(run, dict) else None
        if version != SCHEMA_VERSION:
            why = f"its schema version is {version}, this wmbench reads {SCHEMA_VERSION}"
            raise IntegrityError("run.json has another format", where=str(path), why=why, hint=_START_AFRESH)
        return dict(run)

    def write_run(self, status: Status, content: Mapping[str, Any]) -> None:
        document = {"schema_version": SCHEMA_VERSION, "status": status, **content}
        write_atomic(self.folder / "run.json", pretty_json(document))

    # --- who may write -----------------------------------------------------------------------------------------

    @contextmanager
    def locked(self) -> Iterator[RunStore]:
        """Own the folder. The lock is the operating system's, so that of a dead process is free at once."""
        make_folder(self.folder)
        lock = FileLock(self.folder / ".lock", timeout=0)
        with disk_errors(self.folder / ".lock"):
            try:
                lock.acquire()
            except Timeout:  # an OSError, so it must be caught before the disk's errors
                raise self._taken() from None
        owner_file = self.folder / "owner.json"
        try:
            self._sweep()
            write_atomic(owner_file, pretty_json(asdict(Owner.this_process())))
            yield self
        finally:
            with suppress(OSError):
                owner_file.unlink(missing_ok=True)
            lock.release()

    def _sweep(self) -> None:
        """Remove what killed processes have left half written aside. Nobody else writes here now."""
        for aside in self.folder.rglob(".*.tmp"):
            with suppress(OSError):
                aside.unlink()

    def _taken(self) -> IntegrityError:
        owner = self.read_owner()
        return IntegrityError(
            "another process is working on this run",
            where=str(self.folder),
            why=f"it is locked by {owner}" if owner else "it is locked, and its owner has not signed yet",
            hint="wait for it, or stop it: the same command then resumes",
        )

    def read_owner(self) -> Owner | None:
        """Who holds the lock; kept beside the lock file, which every process that tries the lock empties."""
        try:
            return Owner(**json.loads((self.folder / "owner.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None


_START_AFRESH: Final = "restore the file, or delete the run folder and run the same command again"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
