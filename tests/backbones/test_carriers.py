"""Carriers compute what the formulas say, from tensors under their published names, at any batch size and sharding."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.backbones.families import KINDS, expected_logits, load, logits_of, rows_of
from wmbench.errors import IntegrityError
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.hf.carrier import check_frequencies
from wmbench.runtime.engine import Engine
from wmbench.testing import BackboneContract
from wmbench.testing.checkpoints import make_checkpoint

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def assert_close(found: torch.Tensor, expected: torch.Tensor, engine: Engine, tolerance: float = 1e-5) -> None:
    allowed = torch.from_numpy(engine.allowed)
    torch.testing.assert_close(found[:, allowed], expected[:, allowed], rtol=tolerance, atol=tolerance)


@EVERY_KIND
def test_logits_equal_the_formulas(kind: str, checkpoints: dict[str, Path]) -> None:
    """A padded batch of rows of different lengths, and each row alone, against the formulas."""
    backbone = load(kind, checkpoints[kind])
    engine = Engine(backbone)
    together = logits_of(engine, rows_of(backbone))
    assert engine.counters.forwards < 3, "the rows did not share a batch"
    for row, found in zip(rows_of(backbone), together, strict=True):
        alone = logits_of(Engine(backbone), [row])[0]
        assert torch.equal(found, alone)
        assert_close(found, expected_logits(kind, checkpoints[kind], row), engine)


def test_grouped_query_heads_and_odd_sizes(tmp_path: Path) -> None:
    overrides = {"n_kv_heads": 2, "mlp_hidden_size": 56, "rope_theta": 10000.0, "rms_norm_eps": 1e-6}
    directory = make_checkpoint("llada", tmp_path / "gqa", overrides=overrides)
    backbone = load("llada", directory)
    row = rows_of(backbone)[1]
    assert_close(logits_of(Engine(backbone), [row])[0], expected_logits("llada", directory, row), Engine(backbone))


@EVERY_KIND
def test_sharded_equals_unsharded(kind: str, checkpoints: dict[str, Path], tmp_path: Path) -> None:
    directory = make_checkpoint(kind, tmp_path / "sharded", seed=7, first_special=kind == "llada", shards=3)
    whole, parts = load(kind, checkpoints[kind]), load(kind, directory)
    assert whole.fingerprint == parts.fingerprint
    for one, other in zip(*(logits_of(Engine(b), rows_of(b)) for b in (whole, parts)), strict=True):
        assert torch.equal(one, other)


def test_other_weights_have_another_fingerprint(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    other = make_checkpoint("llada", tmp_path / "other", seed=8, first_special=True)
    assert load("llada", other).fingerprint != load("llada", checkpoints["llada"]).fingerprint


def test_stored_bfloat16_is_read_exactly(tmp_path: Path) -> None:
    directory = make_checkpoint("dream", tmp_path / "bf16", dtype=torch.bfloat16)
    backbone = load("dream", directory)
    row = rows_of(backbone)[0]
    assert_close(logits_of(Engine(backbone), [row])[0], expected_logits("dream", directory, row), Engine(backbone))


def test_runs_in_bfloat16(checkpoints: dict[str, Path]) -> None:
    """The router's bias and the frequencies stay in float32."""
    backbone = load("llada2", checkpoints["llada2"], dtype="bfloat16")
    model = backbone.carrier.model  # type: ignore[attr-defined]
    assert model.model.layers[1].mlp.gate.e_score_correction_bias.dtype == torch.float32
    assert model.model.rotary_emb.inv_freq.dtype == torch.float32
    logits = logits_of(Engine(backbone), rows_of(backbone)[:1])[0]
    assert logits.dtype == torch.float32
    assert not logits.isnan().any()


@pytest.mark.parametrize("origin", ["block", "reference"])
def test_prefix_cache_of_llada2_equals_the_formulas(origin: str, checkpoints: dict[str, Path]) -> None:
    """Filled from left to right; blocks count from the first prompt token, or the past is one block."""
    backbone = load("llada2", checkpoints["llada2"], attention=origin, attention_block=16)
    engine, row = Engine(backbone), rows_of(backbone)[1]
    row.give_back(np.arange(row.start, row.length))
    lengths = []
    while len(row.masked):
        columns = np.arange(row.length)
        border = row.start + (row.masked[0] - row.start) // 16 * 16
        merged = np.where(columns < border, 0, 1 + (columns - border) // 16)
        blocks = columns // 16 if origin == "block" else merged
        expected = expected_logits("llada2", checkpoints["llada2"], row, blocks)
        assert_close(logits_of(engine, [row])[0], expected, engine)
        lengths.append(row.prefix.length if row.prefix else 0)
        row.fill(row.masked[:7], np.arange(7)[: len(row.masked)] + 50)
    assert sorted(lengths) == lengths
    assert len(set(lengths)) > 2, "the prefix cache never grew"


def test_re_masking_an_earlier_unit_drops_the_merged_past(checkpoints: dict[str, Path]) -> None:
    backbone = load("llada2", checkpoints["llada2"], attention="reference", attention_block=8)
    engine, row = Engine(backbone), rows_of(backbone)[0]
    row.give_back(np.arange(row.start, row.length))
    row.fill(np.arange(row.start, row.start + 20), np.arange(20) + 60)
    logits_of(engine, [row])
    assert row.prefix is not None
    assert row.prefix.length == row.start + 16
    row.give_back(np.array([row.start + 9]))
    engine.forget_changed(row)
    columns = np.arange(row.length)
    blocks = np.where(columns < row.start + 8, 0, 1 + (columns - row.start - 8) // 8)
    expected = expected_logits("llada2", checkpoints["llada2"], row, blocks)
    assert_close(logits_of(engine, [row])[0], expected, engine)


def test_wrong_frequencies_do_not_run(checkpoints: dict[str, Path]) -> None:
    carrier = load("dream", checkpoints["dream"]).carrier  # type: ignore[attr-defined]
    assert check_frequencies(carrier.model, carrier.settings) < 1e-6
    carrier.model.model.rotary_emb.inv_freq[3] *= 1.01
    with pytest.raises(IntegrityError, match="rotary frequencies"):
        check_frequencies(carrier.model, carrier.settings)


@pytest.mark.slow
def test_compiled_trunk_gives_the_same_logits(checkpoints: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Traced, but not turned into machine code: that takes a minute and is torch's own business."""
    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", lambda module, **options: compiled(module, backend="eager", **options))
    plain, traced = (load("llada2", checkpoints["llada2"], compile=on) for on in (False, True))
    for one, other in zip(*(logits_of(Engine(b), rows_of(b)) for b in (plain, traced)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


_FRESH = """
import sys, hashlib
from pathlib import Path
from tests.backbones.families import load, logits_of, rows_of
from wmbench.runtime.engine import Engine
for kind, directory in zip(sys.argv[1::2], sys.argv[2::2]):
    backbone = load(kind, Path(directory))
    data = b"".join(part.numpy().tobytes() for part in logits_of(Engine(backbone), rows_of(backbone)))
    print(hashlib.sha256(data).hexdigest())
"""


def test_a_fresh_process_computes_the_same(checkpoints: dict[str, Path]) -> None:
    arguments = [part for kind in KINDS for part in (kind, str(checkpoints[kind]))]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", _FRESH, *arguments], capture_output=True, text=True, check=False, cwd=root
    )
    assert done.returncode == 0, done.stderr
    here = []
    for kind in KINDS:
        backbone = load(kind, checkpoints[kind])
        data = b"".join(part.numpy().tobytes() for part in logits_of(Engine(backbone), rows_of(backbone)))
        here.append(hashlib.sha256(data).hexdigest())
    assert done.stdout.split() == here


class _Contract(BackboneContract):
    kind = ""
    settings: dict[str, object] = {}  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def _made(self, checkpoints: dict[str, Path]) -> None:
        self.backbone = load(self.kind, checkpoints[self.kind], **self.settings)

    def make_backbone(self) -> Backbone:
        return self.backbone


class TestLlada(_Contract):
    kind = "llada"


class TestDream(_Contract):
    kind = "dream"


class TestLlada2(_Contract):
    kind = "llada2"
    settings = {"attention_block": 8}  # noqa: RUF012


del _Contract, BackboneContract  # pytest would collect them
