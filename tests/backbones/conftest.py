"""Tiny random checkpoints of every family, made once; transformers is an extra."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.backbones.families import KINDS
from wmbench.testing.checkpoints import make_checkpoint

if importlib.util.find_spec("transformers") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Directories by family. LLaDA's has its special ids in front, the others behind the words."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return {kind: make_checkpoint(kind, folder / kind, seed=7, first_special=kind == "llada") for kind in KINDS}
