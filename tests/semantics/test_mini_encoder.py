"""The small encoder: its fast paths are its definition, and numpy computes what torch trained."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wmbench.errors import ConfigError, IntegrityError
from wmbench.runtime.codec import TokenizerCodec
from wmbench.semantics.mini_encoder import MiniEncoder
from wmbench.semantics.units import EMPTY_TEXT, WindowEncoder, embed_ids, embed_units, unit_counts, unit_windows

TEXT = " ".join(["save money every month and bake bread slowly near the house"] * 9)


@pytest.fixture(scope="module")
def encoder(small_directory: Path) -> MiniEncoder:
    return MiniEncoder.from_directory(small_directory)


def test_rows_have_unit_length_and_do_not_depend_on_neighbours(encoder: MiniEncoder) -> None:
    texts = [TEXT[i : i + 40] for i in range(60)]
    together = encoder.encode(texts)
    alone = np.concatenate([encoder.encode([text]) for text in texts])
    assert together.shape == (60, encoder.dimension)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_numpy_computes_what_torch_trained(encoder: MiniEncoder, small_directory: Path) -> None:
    import torch
    from safetensors.torch import load_file

    from wmbench.semantics.trainable import MiniModule

    module = MiniModule(small_directory / "tokenizer.json", width=16, hidden=24)
    stored = load_file(small_directory / "model.safetensors")
    module.load_state_dict({name: tensor.float() for name, tensor in stored.items()})
    texts = [TEXT[i : i + 50] for i in range(20)]
    with torch.no_grad():
        expected = module.embed(texts).numpy()
    np.testing.assert_allclose(encoder.encode(texts), expected, atol=1e-5)


def test_windows_and_single_units_agree(encoder: MiniEncoder) -> None:
    ids = encoder.codec.encode(TEXT)
    starts, ends = unit_windows(len(ids), range(12, 38))
    windows = encoder.encode_token_windows(ids, starts, ends)
    singly = encoder.encode_ids([ids[a:b] for a, b in zip(starts, ends, strict=True)])
    np.testing.assert_allclose(windows, singly, atol=1e-5)


def test_a_unit_cut_between_words_equals_its_decoded_text(encoder: MiniEncoder) -> None:
    ids = encoder.codec.encode(" " + TEXT)
    unit = next(ids[a : a + 14] for a in range(5, 40) if encoder.codec._tokenizer.decode(ids[a : a + 1])[0] == " ")
    by_text = encoder.encode([encoder.codec.decode(unit)])
    np.testing.assert_allclose(encoder.encode_ids([unit]), by_text, atol=1e-6)


def test_special_ids_are_dropped_and_wordless_units_are_constant(encoder: MiniEncoder) -> None:
    ids = encoder.codec.encode(TEXT)[:12]
    pad, mask = sorted(encoder.codec.special_ids)
    with_special = encoder.encode_ids([[pad, *ids[:6], mask, *ids[6:], pad]])
    np.testing.assert_allclose(with_special, encoder.encode_ids([ids]), atol=1e-6)
    empty = encoder.encode([EMPTY_TEXT])[0]
    for rows in (encoder.encode_ids([[], [pad, mask], ids])[:2], encoder.encode(["", "  \n"])):
        np.testing.assert_allclose(rows, np.stack([empty, empty]), atol=1e-6)
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_wordless_units_have_a_vector_where_the_tokenizer_cannot_spell_empty(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    from wmbench.semantics.trainable import MiniModule

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "bon": 1, "jour": 2}, unk_token="[UNK]"))
    tokenizer.add_special_tokens(["[UNK]"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    vectors = MiniModule(tmp_path / "tokenizer.json", width=16, hidden=24).as_encoder().encode(["", "[empty]", "bon"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-6)
    assert np.array_equal(vectors[0], vectors[1])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 400), st.sets(st.integers(1, 60), min_size=1, max_size=8))
def test_units_cover_a_text_once_per_size(length: int, sizes: set[int]) -> None:
    order = sorted(sizes)
    starts, ends = unit_windows(length, order)
    counts = unit_counts(length, order)
    assert len(starts) == counts.sum()
    begin = 0
    for size, count in zip(order, counts, strict=True):
        spans = list(zip(starts[begin : begin + count], ends[begin : begin + count], strict=True))
        assert [token for a, b in spans for token in range(a, b)] == list(range(length))
        assert all(b - a == size for a, b in spans[:-1])
        begin += int(count)


def test_units_are_packed_in_window_order(encoder: MiniEncoder) -> None:
    rows = [encoder.codec.encode(TEXT)[:100], encoder.codec.encode(TEXT)[:7], []]
    features = embed_units(encoder, encoder.codec, rows, (12, 25), np.float32)
    assert features.lengths.tolist() == [100, 7, 0]
    assert [len(features.of(i)) for i in range(3)] == [9 + 4, 1 + 1, 0]
    np.testing.assert_allclose(
        features.of(0)[9:], encoder.encode_token_windows(rows[0], *unit_windows(100, [25])), atol=1e-6
    )


class PlainEncoder:
    """An encoder without fast paths."""

    def __init__(self, inner: MiniEncoder) -> None:
        self.inner = inner
        self.dimension = inner.dimension
        self.fingerprint = inner.fingerprint

    def encode(self, texts: list[str]) -> np.ndarray:
        return self.inner.encode(texts)


def test_other_encoders_get_the_text_of_each_unit(encoder: MiniEncoder) -> None:
    rows = [encoder.codec.encode(" " + TEXT)[:90], encoder.codec.encode(TEXT)[:30]]
    plain = PlainEncoder(encoder)
    assert isinstance(encoder, WindowEncoder)
    assert not isinstance(plain, WindowEncoder)
    features = embed_units(plain, encoder.codec, rows, (12, 25), dtype=np.float32)
    expected = [
        encoder.codec.decode(row[a:b]) for row in rows for a, b in zip(*unit_windows(len(row), (12, 25)), strict=True)
    ]
    np.testing.assert_allclose(features.values, encoder.encode(expected), atol=1e-6)
    special = sorted(encoder.codec.special_ids)[0]
    np.testing.assert_allclose(embed_ids(plain, encoder.codec, [[special]]), encoder.encode([EMPTY_TEXT]), atol=1e-6)


def test_only_the_own_tokenizer_opens_the_fast_path(encoder: MiniEncoder, tokenizer_file: Path) -> None:
    assert encoder.shares_tokenizer(TokenizerCodec.from_file(tokenizer_file))
    other = TokenizerCodec(tokenizer_file.read_text().replace("<|mask|>", "<|gap|>"))
    assert not encoder.shares_tokenizer(other)


def test_bad_files_are_named(small_directory: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="do not exist"):
        MiniEncoder.from_directory(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"\x00" * 40)
    with pytest.raises(IntegrityError, match="cannot be read"):
        MiniEncoder.from_files(weights, small_directory / "tokenizer.json")
    other = tmp_path / "tokenizer.json"
    other.write_text((small_directory / "tokenizer.json").read_text().replace("<|mask|>", "<|gap|>"))
    with pytest.raises(IntegrityError, match="another tokenizer"):
        MiniEncoder.from_files(small_directory / "model.safetensors", other)


def test_encoding_imports_no_torch(small_directory: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import wmbench.semantics.plugin as plugin; "
        f"plugin.small_encoder({str(small_directory)!r}).encode(['bake bread']); "
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
