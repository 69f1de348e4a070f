"""False positives on passages from files: halves by document, features kept, keys and documents resampled."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest

from wmbench.bench.passages import over_keys_and_documents, read_passages
from wmbench.cli import main
from wmbench.lab.codec import lab_codec
from wmbench.lab.datasets import null_text

SCHEMES = ["--scheme", "dlm_kgw", "--scheme", "denmark", "-S", "denmark.scan_sizes=24..25"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 documents with two passages each, some too short, one passage twice."""
    file = tmp_path_factory.mktemp("corpus") / "passages.jsonl.gz"
    rows = [
        {"text": null_text(100 + i).text, "doc": f"d{i // 2}", "source": "even" if i % 4 < 2 else "odd"}
        for i in range(120)
    ]
    rows += [{"text": "too short", "doc": "d3"}, rows[0]]
    with gzip.open(file, "wt") as lines:
        lines.writelines(json.dumps(row) + "\n" for row in rows)
    return file


def test_passages_have_the_length_and_documents_stay_together(corpus: Path) -> None:
    codec = lab_codec()
    passages = read_passages([str(corpus)], codec, (150, 300))
    assert 80 < len(passages) <= 120
    assert all(150 <= len(ids) <= 300 for ids in codec.encode_batch(passages.texts))
    assert len(set(passages.texts)) == len(passages)
    sides: dict[str, set[bool]] = {}
    for document, side in zip(passages.documents, passages.calibrates.tolist(), strict=True):
        sides.setdefault(document, set()).add(side)
    assert all(len(found) == 1 for found in sides.values())
    assert 0.3 < passages.calibrates.mean() < 0.7
    few = read_passages([str(corpus)], codec, (150, 300), documents=5)
    assert set(few.documents) <= {f"d{i}" for i in range(5)}
    assert len(read_passages([str(corpus)], codec, (10_000, 10_001))) == 0


def test_a_table_over_keys_and_kept_features(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    arguments = ["analyse", "fpr", *SCHEMES, "--texts", str(corpus), "--output", str(tmp_path)]
    assert main([*arguments, "--keys", "4"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"\| dlm-kgw \| n/a \| \d+ \| \d+ \| 5.0% \| \d+\.\d\d% \[.*%\] \| .* \| \d of 4 \|", printed)
    assert re.search(r"\| denmark \| mini \| \d+ \| \d+ \| 1.0% \| n/a \(calibrate with at least 199", printed)
    assert "| even | " in printed
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}
    assert main([*arguments, "--keys", "6", "--json"]) == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")} == stamps  # no encoder call
    kgw, denmark = json.loads(capsys.readouterr().out)["results"]
    for result in (kgw, denmark):
        found = result["fpr"]["0.05"]
        assert len(found["per_key"]) == 6
        assert found["low"] <= found["estimate"] <= found["high"] < 0.4
    assert kgw["heldout"] == denmark["heldout"]
    assert main([*arguments, "--documents", "3"]) == 2  # too few to decide any level, or nothing in one half


def test_the_interval_knows_that_keys_and_documents_are_units() -> None:
    draw = np.random.default_rng(0)
    documents = [f"d{i // 4}" for i in range(400)]
    independent = draw.random((25, 400)) < 0.05
    by_key = np.repeat(draw.random((25, 1)) < 0.05, 400, axis=1)  # a key that fires at all fires everywhere
    by_document = np.repeat(draw.random((1, 100)) < 0.05, 4, axis=1).repeat(25, axis=0)
    widths = []
    for hits in (independent, by_document, by_key):
        found = over_keys_and_documents(hits, documents)
        assert found["estimate"] == pytest.approx(hits.mean())
        assert found["low"] <= found["estimate"] <= found["high"]
        widths.append(found["high"] - found["low"])
    assert widths[0] < 0.02 < widths[1] < widths[2]
