"""Finished run folders: which ones are meant, and what is in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from wmbench.bench.jsonl import JsonlFile, Record
from wmbench.bench.packed import packed_files, read_packed
from wmbench.bench.store import RunStore
from wmbench.bench.textset import SAMPLES, UNATTACKED, attacked_name
from wmbench.errors import ConfigError, IntegrityError

METRICS: Final = "metrics.json"
REPORTS: Final = "reports"
"""The folder beside the runs that holds their reports."""
_RUN: Final = "run.json"


class RunFolder:
    """Reads one run folder; writes nothing. Files are read when they are asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = RunStore(path)

    @cached_property
    def run(self) -> dict[str, Any]:
        return self.store.read_run() or {}

    @cached_property
    def metrics(self) -> dict[str, Any]:
        return read_metrics(self.path / METRICS)

    @property
    def is_control(self) -> bool:
        """Its texts are unmarked, so it has no metrics."""
        return bool(self.run.get("scheme", {}).get("key_use") == "none") and not (self.path / METRICS).exists()

    @property
    def is_finished(self) -> bool:
        return (self.path / METRICS).exists() or self.is_control

    @cached_property
    def samples(self) -> dict[str, Record]:
        """Kept samples by id, in prompt order."""
        kept = {verdict["id"] for verdict in self.store.filter.read() if verdict["kept"]}
        return {sample["id"]: sample for sample in self.store.samples.read() if sample["id"] in kept}

    @cached_property
    def prompts(self) -> dict[str, str]:
        return {record["id"]: record["prompt"] for record in self.store.prompts.read()}

    def verdicts(self, name: str) -> dict[str, Record]:
        """Of one text set, by id and in order; empty when there are none."""
        return {record["id"]: record for record in JsonlFile(self.path / "verdicts" / f"{name}.jsonl").read()}

    @property
    def heldout(self) -> str:
        """The set that false positives are measured on first."""
        return f"heldout-{self.metrics['nulls'][0]['family']}"

    def lengths(self, name: str) -> npt.NDArray[np.int64] | None:
        """Tokens of each text of a set; None when its features are not there (they may be deleted)."""
        folder = self.path / "features"
        if not all((folder / file).exists() for file in packed_files(name)):
            return None
        return read_packed(folder, name).lengths


def set_name(attack: str) -> str:
    """The text set of a cell."""
    return SAMPLES if attack == UNATTACKED else attacked_name(attack)


def find_runs(arguments: Iterable[str | Path]) -> list[RunFolder]:
    """Run folders, and those inside of folders that are none themselves; each once, in order. Inside of a folder those
    that are not finished are left out, unless there is no other: a failed run does not hide the rest."""
    found: dict[Path, RunFolder] = {}
    for argument in arguments:
        path = Path(argument)
        if not path.is_dir():
            raise ConfigError("no such run folder", where=str(path), hint="check the folder's name")
        inside = [path] if _is_run(path) else _runs_inside(path)
        inside = [folder for folder in inside if folder == path or RunFolder(folder).is_finished] or inside
        if not inside and not _stands_beside_runs(path):
            raise ConfigError(
                "this folder holds no run", where=str(path), hint="name a run folder, or the folder that holds them"
            )
        for folder in inside:
            found.setdefault(folder.resolve(), RunFolder(folder))
    if not found:
        raise ConfigError("no run to report on", hint="name a run folder, or the folder that holds them")
    return list(found.values())


def report_folder(arguments: Iterable[str | Path]) -> Path:
    """Where the report on these runs belongs: `reports/<run>`, `reports/<schemes>_<hash>`, or `reports/all` for a
    folder that holds runs. The same runs have the same place, whatever their order, and other runs have another."""
    arguments = list(arguments)
    runs = [folder.path.resolve() for folder in find_runs(arguments)]
    reports, here = runs[0].parent / REPORTS, Path.cwd()
    reports = reports.relative_to(here) if reports.is_relative_to(here) else reports
    if len(arguments) == 1 and not _is_run(Path(arguments[0])):
        return reports / "all"
    if len(runs) == 1:
        return reports / runs[0].name
    names = hashlib.sha256("\n".join(sorted(map(str, runs))).encode()).hexdigest()[:8]
    schemes = "_".join(dict.fromkeys(run.name.partition("_")[0] for run in sorted(runs)))
    return reports / f"{schemes[:60]}_{names}"


def point_latest(folder: Path) -> None:
    """`reports/latest` leads to the newest report, where the file system has links."""
    link = folder.parent / ".latest"
    with suppress(OSError):
        link.unlink(missing_ok=True)
        link.symlink_to(folder.name, target_is_directory=True)
        link.replace(folder.parent / "latest")


def left_out(arguments: Iterable[str | Path]) -> list[str]:
    """What `find_runs` has left out, in words."""
    found = {folder.path.resolve() for folder in find_runs(arguments)}
    inside = [run for path in map(Path, arguments) if not _is_run(path) for run in _runs_inside(path)]
    names = dict.fromkeys(path.name for path in inside if path.resolve() not in found)
    return [f"{name} is not finished and left out; the same `wmbench run` command continues it." for name in names]


def _runs_inside(path: Path) -> list[Path]:
    return sorted(child for child in path.iterdir() if _is_run(child))


def _stands_beside_runs(path: Path) -> bool:
    """Reports, sweeps and tunings: `runs/*` names them, too."""
    results = (folder / name for folder in (path, *path.iterdir()) for name in ("report.json", "sweep.json"))
    return path.resolve().name == "tunings" or any(file.exists() for file in results)


def _is_run(path: Path) -> bool:
    return (path / _RUN).is_file() or (path / METRICS).is_file()


def read_metrics(path: Path) -> dict[str, Any]:
    try:
        metrics: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        hint = "finish it with the same `wmbench run` command" if path.parent.is_dir() else "check the folder's name"
        why = None if path.parent.is_dir() else "there is no such folder"
        raise ConfigError("this run has no results", where=str(path.parent), why=why, hint=hint) from None
    except (OSError, ValueError) as error:
        raise IntegrityError(
            "the results cannot be read", where=str(path), why=str(error), hint="delete the file and run again"
        ) from error
    return metrics
