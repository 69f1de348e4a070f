"""Null texts: disjoint by document, balanced by length, packed on disk without loss."""

from __future__ import annotations

import gzip
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.pipeline.helpers import builder, prepared
from wmbench.bench.jsonl import JsonlFile, Record
from wmbench.bench.null_files import file_nulls
from wmbench.bench.nulls import NullLibrary, NullSpec
from wmbench.bench.packed import kept_packed, packed_files, read_packed, write_packed
from wmbench.bench.pipeline import execute_all
from wmbench.bench.published import c4_nulls
from wmbench.bench.split import CALIBRATION_SHARE, side_of
from wmbench.errors import ConfigError
from wmbench.observers import ProgressObserver
from wmbench.types import Features, NullText


def drawn(folder: Path, nulls: str = "salad", calibration: int = 100, heldout: int = 50) -> list[Record]:
    (run,) = prepared(folder, nulls=[nulls], calibration_texts=calibration, heldout_texts=heldout)
    spec = run.nulls[0]
    library = NullLibrary.beside(folder, builder())
    library.texts(spec)
    return JsonlFile(library.folder(spec) / "texts.jsonl").read()


def test_sides_are_disjoint_by_document_and_of_the_size_asked_for(tmp_path: Path) -> None:
    records = drawn(tmp_path)
    assert Counter(record["side"] for record in records) == {"calibration": 100, "heldout": 50}
    sides: dict[str, set[str]] = {}
    for record in records:
        sides.setdefault(record["document"], set()).add(record["side"])
    assert any(sum(r["document"] == d for r in records) == 2 for d in sides)  # some documents gave two texts
    assert all(len(found) == 1 for found in sides.values())


def test_a_document_stays_on_its_side_at_every_size(tmp_path: Path) -> None:
    small, large = drawn(tmp_path / "a"), drawn(tmp_path / "b", calibration=120, heldout=200)
    side = {record["document"]: record["side"] for record in large}
    assert all(side.get(record["document"], record["side"]) == record["side"] for record in small)


def test_the_split_has_its_share() -> None:
    sides = Counter(side_of(NullText(str(i), "", "", document=f"d{i}")) for i in range(4000))
    assert abs(sides["calibration"] / 4000 - CALIBRATION_SHARE) < 0.03


def test_lengths_are_stratified_in_both_sides(tmp_path: Path) -> None:
    records = drawn(tmp_path)  # answers of 24 tokens: null texts of 12 to 24, cut from longer ones
    for record in records:
        assert 12 <= record["tokens"] == len(record["text"].split()) <= 24
    for side, size in (("calibration", 100), ("heldout", 50)):
        strata = Counter((r["tokens"] - 12) * 5 // 13 for r in records if r["side"] == side)
        assert strata == dict.fromkeys(range(5), size // 5)


def test_too_few_texts_say_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too few texts") as caught:
        drawn(tmp_path, "salad:60")
    assert "of 60 texts" in str(caught.value)
    assert "12-14 tokens for calibration" in str(caught.value)


def test_too_few_texts_show_before_anything_is_decoded(tmp_path: Path) -> None:
    runs = prepared(tmp_path, schemes=["none", "green"], nulls=["salad:60"])
    with pytest.raises(ConfigError, match="too few texts"):
        list(execute_all(runs))
    assert not any(run.store.folder.exists() for run in runs)


def test_the_cache_is_keyed_by_what_determines_the_texts(tmp_path: Path) -> None:
    def digest(**options: object) -> str:
        (run,) = prepared(tmp_path, **options)
        return NullSpec.all_of(run.plan, run.backbone.codec)[0].digest

    assert digest() == digest(seed=3, alpha=0.05, samples=2)
    changed = [{"nulls": ["salad:500"]}, {"calibration_texts": 101}, {"decoding": {"max_new_tokens": 26}}]
    assert len({digest(), *(digest(**options) for options in changed)}) == 4


def test_null_texts_of_a_file_change_with_the_file(tmp_path: Path) -> None:
    def lines(shift: int) -> bytes:
        texts = [" ".join(f"w{3 + (i * i + j + shift) % 58}" for j in range(30)) for i in range(58 * 8)]
        return b"".join(
            json.dumps({"text": f"{text} w{3 + i % 57}", "doc": f"d{i // 4}"}).encode() + b"\n"
            for i, text in enumerate(texts)
        )

    file = tmp_path / "nulls.jsonl.gz"
    digests = []
    for shift in (0, 1):
        file.write_bytes(gzip.compress(lines(shift)))
        (run,) = prepared(tmp_path, nulls=[f"texts:{file}"])
        digests.append(run.nulls[0].digest)
    assert digests[0] != digests[1]
    found = list(file_nulls(str(file), 5))
    assert [(null.id, null.document) for null in found[3:]] == [("line-4", "d0"), ("line-5", "d1")]
    file.write_bytes(gzip.compress(b'{"text": 1}\n'))
    with pytest.raises(ConfigError, match="no text"):
        list(file_nulls(str(file)))
    whole = gzip.compress(lines(0))
    for damaged in (whole[:-20], whole[:10] + b"\xff" * 50):
        file.write_bytes(damaged)
        for read in (file_nulls, c4_nulls):
            with pytest.raises(ConfigError, match="cannot be read"):
                list(read(str(file), None))


def test_null_texts_that_lie_among_the_data_change_with_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`c4` does not say which file it reads: `$WMBENCH_DATA` does, or it is the hub's stream."""

    def found(folder: Path) -> tuple[str, list[str]]:
        monkeypatch.setenv("WMBENCH_DATA", str(folder))
        (run,) = prepared(tmp_path / "runs", nulls=["c4"], calibration_texts=20, heldout_texts=10, alpha=0.2)
        spec = run.nulls[0]
        sides = NullLibrary.beside(tmp_path / "runs", builder()).texts(spec) if spec.identity["file"] else {}
        return spec.digest, [text for side in sides.values() for text in side.texts]

    words = [" ".join(f"w{3 + (i * i + j) % 58}" for j in range(30)) for i in range(400)]
    for name, texts in (("one", words), ("other", words[::-1]), ("replaced", words)):
        (tmp_path / name).mkdir()
        lines = [json.dumps({"text": text, "doc": f"d{i}"}) + "\n" for i, text in enumerate(texts)]
        (tmp_path / name / "c4_realnewslike.jsonl").write_text("".join(lines))
    one, other, moved = (found(tmp_path / name) for name in ("one", "other", "replaced"))
    assert one == moved  # the content counts, not its place
    assert one[0] != other[0]
    assert one[1] != other[1]
    (tmp_path / "other" / "c4_realnewslike.jsonl").rename(tmp_path / "replaced" / "c4_realnewslike.jsonl")
    assert found(tmp_path / "replaced") == other
    assert found(tmp_path / "nowhere")[0] not in {one[0], other[0]}


def test_what_makes_its_texts_has_the_same_identity_wherever_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digests() -> list[str]:
        runs = [prepared(tmp_path / "runs", nulls=[name])[0] for name in ("lab", "lab:finance", "clean:tiny")]
        assert [run.nulls[0].identity["file"] for run in runs] == [None] * 3
        return [run.nulls[0].digest for run in runs]

    before = digests()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "finance").write_text("a file of the domain's name")
    (tmp_path / "tiny").write_text("a file of the backbone's name")
    assert digests() == before


def test_fields_of_a_null_file_that_are_null_are_not_there(tmp_path: Path) -> None:
    file = tmp_path / "nulls.jsonl"
    file.write_text('{"text": "a", "id": null, "document": null, "doc": 7}\n{"text": "b", "domain": null}\n')
    found = [(null.id, null.document, null.domain) for null in file_nulls(str(file))]
    assert found == [("line-1", "7", ""), ("line-2", "line-2", "")]


def test_null_texts_of_one_id_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "nulls.jsonl"
    texts = [" ".join(f"w{3 + (i * i + j) % 58}" for j in range(30)) + f" w{3 + i % 57}" for i in range(58 * 8)]
    file.write_text("".join(json.dumps({"text": t, "id": f"d{i // 4}"}) + "\n" for i, t in enumerate(texts)))
    with pytest.raises(ConfigError, match="two texts with the id 'd"):
        drawn(tmp_path, f"texts:{file}")


@pytest.mark.parametrize("width", [None, 3])
def test_packed_features_are_written_in_chunks_and_mapped(tmp_path: Path, width: int | None) -> None:
    draw = np.random.default_rng(0)
    shape = () if width is None else (width,)
    parts = [draw.random((n, *shape)).astype(np.float16) for n in (4, 0, 7, 1, 130)]
    chunks = [Features.pack(parts[:2], [4, 0]), Features.pack(parts[2:], [7, 1, 130])]
    write_packed(tmp_path, "texts", chunks)
    found = read_packed(tmp_path, "texts")
    assert isinstance(found.values, np.memmap)
    assert found.values.dtype == np.float16
    assert found.lengths.tolist() == [4, 0, 7, 1, 130]
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(found.of(i), part)


@pytest.mark.parametrize("file", packed_files("texts"))
@pytest.mark.parametrize("left", [0, 10, 140])
def test_a_cache_that_was_cut_off_is_made_again(tmp_path: Path, file: str, left: int) -> None:
    features = Features.pack([np.arange(8.0), np.arange(4.0)], [8, 4])
    for _ in range(2):
        found = kept_packed(tmp_path, "texts", {"texts": "x"}, lambda: [features])
        assert found.values.tolist() == features.values.tolist()
        del found  # nothing may be mapped while its file is cut
        with (tmp_path / file).open("r+b") as opened:
            opened.truncate(left)


def test_features_show_how_far_they_are(tmp_path: Path) -> None:
    (run,) = prepared(tmp_path, calibration_texts=600)
    (spec,), log = run.nulls, io.StringIO()
    assert run.detector is not None
    library = NullLibrary(tmp_path / "nulls", builder(), progress=ProgressObserver(log, line_seconds=0))
    library.features(spec, library.texts(spec)["calibration"], run.detector)
    counts = [line.split()[4] for line in log.getvalue().splitlines()]  # "features, null texts salad: 256/600 ..."
    assert counts[-1] == "600/600"
    assert len(counts) > 2  # not only at the end
