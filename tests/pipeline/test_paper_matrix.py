"""The paper's whole matrix, every cell, in one command: tiny checkpoints, a chat endpoint on loopback, few texts."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import toy_encoder_plugin
from tests.attacks_model.server import Endpoint
from wmbench.cli import main
from wmbench.presets import PRESETS
from wmbench.testing.checkpoints import make_checkpoint

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("transformers", "openai")), reason="extras hf and llm"
    ),
]

KINDS = {"llada-8b": "llada", "llada-1.5": "llada", "llada2.0-mini": "llada2", "dream-7b": "dream"}
WORDS = ["the", "river", "rises", "in", "spring", "save", "a", "little", "every", "month", "please", "and", "why"]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    yield server
    server.stop()


def write_data(folder: Path) -> None:
    """Prompts and null documents where the paper's are looked for."""
    folder.mkdir()
    draw = random.Random(0)
    for name in PRESETS["paper"]["datasets"]:
        lines = [json.dumps({"prompt": f"{name}: {' '.join(draw.choices(WORDS, k=6))}?"}) for _ in range(3)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    documents = [{"url": f"http://{i}", "text": " ".join(draw.choices(WORDS, k=60))} for i in range(300)]
    (folder / "c4_realnewslike.jsonl").write_text("\n".join(map(json.dumps, documents)))


def write_config(folder: Path, endpoint: Endpoint) -> Path:
    """What a user of the preset says about his machine: where the models are, and who rewrites."""
    llm = {"base_url": endpoint.url, "api_key_env": None, "cache": str(folder / "answers.sqlite"), "pause": 0.01}
    settings: dict[str, Any] = {
        "backbones": [
            {"name": name, "params": {"path": str(make_checkpoint(kind, folder / name, seed=7)), "device": "cpu"}}
            for name, kind in KINDS.items()
        ],
        "attacks": [{"name": name, "params": llm} for name in PRESETS["paper"]["attacks"]],
        "filters": {"min_tokens": 1, "max_repetition": 1.0},
    }
    path = folder / "paper.yaml"
    path.write_text(json.dumps(settings))  # JSON is YAML
    return path


def test_every_cell_of_the_papers_matrix(
    endpoint: Endpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WMBENCH_KEY", "11" * 32)
    monkeypatch.setenv("WMBENCH_DATA", str(tmp_path / "data"))
    write_data(tmp_path / "data")
    arguments = [
        "run", "--preset", "paper", "--config", str(write_config(tmp_path, endpoint)),
        "--plugin", toy_encoder_plugin.__file__,
        *(part for setting in toy_encoder_plugin.TOY_DENMARK for part in ("-S", f"denmark.{setting}")),
        "--samples", "2", "--calibration-texts", "40", "--heldout-texts", "10", "--alpha", "0.1",
        "-D", "max_new_tokens=30", "-D", "steps=30", "-D", "temperature=1.0", "--failure-limit", "1",
    ]  # fmt: skip
    assert main(arguments) == 0, capsys.readouterr().err
    runs = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/run.json")]
    assert len(runs) == 72
    assert {run["status"] for run in runs} <= {"success", "partial"}  # nonsense may hold no word to rewrite
    cells: dict[tuple[str, ...], int] = {}
    for path in tmp_path.glob("runs/*/metrics.json"):
        metrics = json.loads(path.read_text())
        for cell in metrics["cells"]:
            assert cell["n"] + cell["failed"] == metrics["samples"]["kept"] > 0
            cells[metrics["scheme"], metrics["backbone"], metrics["dataset"], cell["attack"]] = cell["n"]
    assert len(cells) == 300
    assert sum(n > 0 for n in cells.values()) > 290
    assert "already complete" not in capsys.readouterr().out
    assert main(arguments) == 0
    assert capsys.readouterr().out.count("already complete") == 72
