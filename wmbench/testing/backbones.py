"""The contract of a backbone. Subclass it and say how yours is made:

    class TestMine(BackboneContract):
        def make_backbone(self): return MyBackbone(MyConfig(path=...))

Bit equality is promised on CPU in float32; on a GPU or in bfloat16 set `batch_tolerance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from wmbench.runtime.backbone import Backbone, WindowGroup, Windows
from wmbench.runtime.engine import Engine
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.randomness import SampleRandom
from wmbench.runtime.row import Row
from wmbench.runtime.selfcheck import some_text_id
from wmbench.runtime.settings import Decoding
from wmbench.testing.toys import toy_samples

_PADDING_BLOCK = 2**31


class BackboneContract:
    """What every backbone must keep."""

    prompts: ClassVar[Sequence[str]] = ("one", "two of three words", "a somewhat longer prompt of eight words")
    texts: ClassVar[Sequence[str]] = ("The river rises in spring.", "Save a little every month, please.", "")
    batch_tolerance: ClassVar[float] = 0.0
    """How much a row's logits may depend on the batch."""
    cache_tolerance: ClassVar[float] = 1e-5
    """How much padding or a cached prefix may change logits (rounding)."""
    new_tokens: ClassVar[int] = 20

    def make_backbone(self) -> Backbone:
        raise NotImplementedError("say how your backbone is made")

    # --- codec -------------------------------------------------------------------------------------------------

    def test_codec_round_trip(self) -> None:
        """What the model writes is found again: detection retokenises text."""
        codec = self.make_backbone().codec
        for text in self.texts:
            ids = codec.encode(text)
            assert codec.encode(codec.decode(ids)) == ids
            assert codec.decode(codec.encode(codec.decode(ids))) == codec.decode(ids)

    def test_codec_is_consistent(self) -> None:
        codec = self.make_backbone().codec
        texts = [*self.texts, *self.prompts]
        assert codec.encode_batch(texts) == [codec.encode(text) for text in texts]
        for ids in codec.encode_batch(texts):
            assert all(0 <= i < codec.size for i in ids)
            assert not codec.special_ids & set(ids), "plain text holds special ids"
            marked = [part for i in ids for part in (i, *sorted(codec.special_ids))]
            assert codec.decode(marked) == codec.decode(ids), "special ids have text"
        assert all(codec.encode_prompt(prompt) for prompt in self.prompts), "a prompt without ids"
        assert codec.fingerprint
        assert codec.fingerprint == self.make_backbone().codec.fingerprint

    def test_banned_ids(self) -> None:
        """The mask, special ids except EOS, and ids beyond the tokenizer are never sampled."""
        backbone = self.make_backbone()
        beyond = range(backbone.codec.size, backbone.vocab_size)
        special = backbone.codec.special_ids - backbone.eos_ids
        assert {backbone.mask_id, *beyond, *special} <= set(backbone.banned_ids)
        assert not backbone.eos_ids & set(backbone.banned_ids), "whether EOS may be emitted is the run's choice"
        decoding = Decoding(max_new_tokens=self.new_tokens, temperature=5.0)
        for generation in decode(toy_samples(8), make_engine(backbone, decoding), decoding):
            assert not set(backbone.banned_ids) & set(generation.token_ids)

    # --- logits ------------------------------------------------------------------------------------------------

    def test_logits_have_their_shape(self) -> None:
        backbone = self.make_backbone()
        logits = self._logits(Engine(backbone), self._rows(backbone, 1))[0]
        assert logits.shape[1] == backbone.vocab_size
        assert logits.dtype == torch.float32
        assert logits.isfinite().any(dim=1).all()
        assert not logits.isnan().any()

    def test_batch_does_not_change_logits(self) -> None:
        """Rows of different lengths and fillings, at batch 1, 3 and 16."""
        backbone = self.make_backbone()
        alone = [self._logits(Engine(backbone), [row])[0] for row in self._rows(backbone, 16)]
        for size in (3, 16):
            rows = self._rows(backbone, 16)
            batches = [rows[at : at + size] for at in range(0, 16, size)]
            together = [logits for batch in batches for logits in self._logits(Engine(backbone), batch)]
            for one, other in zip(alone, together, strict=True):
                _assert_close(one, other, self.batch_tolerance)

    def test_padding_does_not_change_logits(self) -> None:
        """The same window, padded to different widths with different ids."""
        backbone = self.make_backbone()
        row = self._rows(backbone, 2)[1]
        narrow = self._window_logits(backbone, row, row.length + 8, fill=0)
        wide = self._window_logits(backbone, row, row.length + 41, fill=5)
        _assert_close(narrow, wide, self.cache_tolerance)

    def test_cached_prefix_equals_recomputation(self) -> None:
        """Fill block after block: logits that continue the cache equal those of a fresh engine."""
        backbone = self._block_causal()
        engine, row = Engine(backbone), self._rows(backbone, 1)[0]
        row.give_back(np.arange(row.start, row.length))
        lengths = []
        while len(row.masked):
            fresh = self._rows(backbone, 1)[0]
            fresh.fill(np.arange(row.start, row.length), row.generated)
            cached, recomputed = self._logits(engine, [row])[0], self._logits(Engine(backbone), [fresh])[0]
            _assert_close(cached, recomputed, self.cache_tolerance)
            lengths.append(row.prefix.length if row.prefix else 0)
            columns = row.masked[:3]
            row.fill(columns, np.full(len(columns), some_text_id(backbone)))
        assert lengths[-1] > lengths[0], "the prefix cache never grew"

    def test_later_blocks_do_not_change_earlier_logits(self) -> None:
        backbone = self._block_causal()
        empty, filled = self._rows(backbone, 1)[0], self._rows(backbone, 1)[0]
        border = backbone.attention.end(empty.start, empty.start, empty.length)
        for row in (empty, filled):
            row.give_back(np.arange(row.start, row.length))
        filled.fill(np.arange(border, filled.length), np.full(filled.length - border, some_text_id(backbone)))
        early = slice(0, border - empty.start)
        before, after = (self._window_logits(backbone, row, row.length + 8)[early] for row in (empty, filled))
        _assert_close(before, after, self.cache_tolerance)

    # --- counting ----------------------------------------------------------------------------------------------

    def test_counters_equal_what_the_model_saw(self) -> None:
        backbone = _Counting(self.make_backbone())
        decoding = Decoding(max_new_tokens=self.new_tokens, block_length=8)
        engine = make_engine(backbone, decoding)
        costs = [generation.cost for generation in decode(toy_samples(5), engine, decoding, batch_size=3)]
        assert backbone.forwards == engine.counters.forwards
        assert backbone.positions == engine.counters.forward_tokens == sum(cost.forward_tokens for cost in costs)
        assert backbone.windows == engine.counters.forward_rows == sum(cost.forward_rows for cost in costs)
        assert engine.counters.head_rows == sum(cost.head_rows for cost in costs)

    # --- inside ------------------------------------------------------------------------------------------------

    def _block_causal(self) -> Backbone:
        backbone = self.make_backbone()
        if backbone.attention.block_length is None:
            pytest.skip("full attention has no prefix cache")
        return backbone

    def _rows(self, backbone: Backbone, count: int) -> list[Row]:
        """Rows with different prompts; every third generated cell of row i is filled, from the i-th on."""
        rows = []
        for i, sample in enumerate(toy_samples(count)):
            prompt_ids = backbone.codec.encode_prompt(self.prompts[i % len(self.prompts)])
            row = Row(sample, prompt_ids, self.new_tokens, backbone.mask_id, SampleRandom(0, sample.id))
            columns = np.arange(row.start + i % 3, row.length, 3)
            row.fill(columns, np.full(len(columns), some_text_id(backbone)))
            rows.append(row)
        return rows

    def _logits(self, engine: Engine, rows: Sequence[Row]) -> list[Tensor]:
        """Logits at every masked cell of each row, through the engine."""
        columns = [row.masked for row in rows]
        spans = [engine.span(row, masked) for row, masked in zip(rows, columns, strict=True)]
        views = engine.base_views(rows, spans)
        states = torch.cat([view.at(masked) for view, masked in zip(views, columns, strict=True)])
        counts = [len(masked) for masked in columns]
        return list(torch.split(engine.logits(states, zip(rows, counts, strict=True)), counts))

    def _window_logits(self, backbone: Backbone, row: Row, width: int, fill: int = 0) -> Tensor:
        """Logits of the generated cells from one padded window, straight from the model."""
        ids = torch.full((1, width), fill)
        ids[0, : row.length] = torch.from_numpy(row.canvas.copy())
        blocks = torch.full((1, width), _PADDING_BLOCK)
        blocks[0, : row.length] = torch.tensor([backbone.attention.block(c, row.start) for c in range(row.length)])
        device = backbone.device
        windows = Windows(
            ids.to(device),
            torch.arange(width)[None].to(device),
            blocks.to(device),
            (row.length,),
            (WindowGroup(1, None),),
        )
        states, _ = backbone.hidden(windows)
        columns = torch.arange(row.start, row.length) - backbone.logit_shift
        return backbone.logits(states[0, columns.to(device)])


class _Counting:
    """A backbone that counts what it is sent, independently of the engine."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self.forwards = self.windows = self.positions = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backbone, name)

    def hidden(self, windows: Windows) -> Any:
        self.forwards += 1
        self.windows += len(windows.lengths)
        real = windows.blocks[: len(windows.lengths)] != _PADDING_BLOCK
        self.positions += int(real.sum())
        return self._backbone.hidden(windows)


def _assert_close(one: Tensor, other: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=tolerance)
