"""Several processes: the same bytes, the same errors, no key in a pipe."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.helpers import PLUGIN, SMALL, builder, host, run
from tests.store.helpers import final_files
from wmbench.bench.pipeline import Outcome, execute, execution_order, prepare_all
from wmbench.bench.plan import resolve_runs
from wmbench.bench.workers import RunAddress, WorkerPool, in_order
from wmbench.config import load_config
from wmbench.errors import PluginError


def run_shared(output: Path, workers: int, **options: Any) -> list[Outcome]:
    config = load_config(options={**SMALL, "output": str(output), "workers": workers, **options})
    with WorkerPool(workers, [str(PLUGIN)]) as pool:
        runs = prepare_all(resolve_runs(config, host()), builder(), executor=pool)
        return [execute(prepared) for prepared in execution_order(runs)]


def test_results_do_not_depend_on_the_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmbench.bench.attack_files.TEXTS_PER_CALL", 1)  # a batch may fail as a whole
    options: dict[str, Any] = {"samples": 6, "batch_size": 2, "attacks": ["identity", "moody"]}
    alone = run(tmp_path / "alone", **options)
    (shared,) = run_shared(tmp_path / "shared", 2, **options)
    assert final_files(shared.folder) == final_files(alone.folder)
    assert shared.counts == alone.counts


def test_an_error_in_a_worker_is_the_users_error(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match="failed in hook decode_step") as caught:
        run_shared(tmp_path, 2, schemes=["broken"], attacks=[])
    assert "out of ink" in str(caught.value)
    assert caught.value.hint


def test_what_a_worker_is_sent_names_the_key_only(tmp_path: Path) -> None:
    config = load_config(options={**SMALL, "key": "env:WMBENCH_KEY"})
    sent = RunAddress.of(resolve_runs(config, host())[0])
    assert "env:WMBENCH_KEY" in sent.config
    assert "5a5a5a" not in sent.config


def test_results_wait_for_their_turn() -> None:
    assert list(in_order(iter([(2, "c"), (0, "a"), (1, "b"), (3, "d")]))) == ["a", "b", "c", "d"]
