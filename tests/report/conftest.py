from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.made_up import write_runs
from wmbench.report.document import Document, Passage, Piece
from wmbench.report.gather import gather


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with five made-up schemes and a control; nobody writes into it."""
    folder = tmp_path_factory.mktemp("runs")
    write_runs(folder)
    return folder


@pytest.fixture(scope="session")
def document(runs: Path) -> Document:
    """With evidence on every word of the first three prompts: made-up runs have no key to find any with."""
    found = gather([runs], texts=3)
    lit = []
    for run in found.runs:
        examples = [
            example.model_copy(update={"passages": [_lit(passage) for passage in example.passages]})
            for example in run.examples
        ]
        lit.append(run.model_copy(update={"examples": examples, "no_evidence": ""}))
    return found.model_copy(update={"runs": lit})


def _lit(passage: Passage) -> Passage:
    words = "".join(piece.text for piece in passage.pieces).split(" ")
    pieces = [Piece(text=f"{word} ", weight=(n % 11) - 4.0, label=f"unit {n}") for n, word in enumerate(words)]
    return passage.model_copy(update={"pieces": pieces})
