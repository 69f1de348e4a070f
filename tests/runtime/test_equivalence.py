"""The accelerated loop writes exactly the tokens of a naive one, and counts exactly what it forwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.runtime.naive import NEW_TOKENS, NaiveRow, clean, lookahead_search
from tests.runtime.schemes import make_lookahead_search, token_score
from wmbench.runtime.backbone import Prefix, Windows
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.runtime.engine import Engine
from wmbench.runtime.lookahead import Edit
from wmbench.runtime.loop import decode
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Cells, Step
from wmbench.types import Commit, Sample

GEOMETRIES = {
    "full": TinyConfig(attention="full"),
    "full shifted": TinyConfig(attention="full", shift=1),
    "block": TinyConfig(attention="block", attention_block=10),
    "unit straddles blocks": TinyConfig(attention="block", attention_block=8),
    "blocks from the prompt": TinyConfig(attention="block", attention_block=8, block_origin="prompt"),
    "block shifted": TinyConfig(attention="block", attention_block=8, shift=1),
}
SAMPLES = [Sample(f"s{i}", "w5 w6 w7 " * (1 + 2 * i)) for i in range(4)]


def naive_rows(backbone: TinyBackbone) -> list[NaiveRow]:
    return [NaiveRow(backbone, backbone.codec.encode_prompt(s.prompt), s.id) for s in SAMPLES]


def decoded(
    backbone: TinyBackbone, decoding: Decoding, batch_size: int, **options: Any
) -> tuple[list[list[int]], Engine]:
    engine = Engine(backbone, **options.pop("limits", {}))
    done = {g.sample.id: g for g in decode(SAMPLES, engine, decoding, batch_size=batch_size, **options)}
    return [list(done[s.id].token_ids) for s in SAMPLES], engine


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("positions", ["random", "low_confidence", "margin", "entropy"])
def test_clean_decoding_equals_naive(geometry: str, positions: str) -> None:
    backbone = TinyBackbone(GEOMETRIES[geometry])
    rows = naive_rows(backbone)
    for row in rows:
        clean(row, 10, 0.5, positions)
    expected = [row.canvas[row.start :].tolist() for row in rows]
    decoding = Decoding(max_new_tokens=NEW_TOKENS, block_length=10, positions=positions)  # type: ignore[arg-type]
    for batch_size in (1, 8):
        assert decoded(backbone, decoding, batch_size)[0] == expected


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("remask", [False, True], ids=["monotone", "re-masking"])
def test_lookahead_with_dedup_reuse_and_prefix_cache_equals_naive(geometry: str, remask: bool) -> None:
    backbone = TinyBackbone(GEOMETRIES[geometry])
    rows = naive_rows(backbone)
    for row in rows:
        lookahead_search(row, 10, 4, 2, token_score, remask)
    expected = [row.canvas[row.start :].tolist() for row in rows]
    decoding = Decoding(max_new_tokens=NEW_TOKENS, block_length=10)
    for batch_size, limits in ((1, {}), (3, {}), (8, {"max_forward_tokens": 70, "max_logit_values": 1500})):
        decide = make_lookahead_search(10, 4, 2, token_score, remask)
        tokens, engine = decoded(backbone, decoding, batch_size, decide=decide, limits=limits)
        assert tokens == expected
        assert engine.counters.reused > 0
        assert engine.counters.forward_rows < sum(row.forwards for row in rows)


class Instrumented(TinyBackbone):
    """Counts on the model's side of the border."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__(config)
        self.calls = self.rows = self.tokens = self.head_rows = 0

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        self.calls += 1
        self.rows += len(windows.lengths)
        self.tokens += sum(windows.lengths)
        return super().hidden(windows)

    def logits(self, states: Tensor) -> Tensor:
        self.head_rows += len(states)
        return super().logits(states)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_counters_equal_the_models_and_do_not_depend_on_the_batch(
    geometry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wmbench.runtime.engine.safe_rows", lambda device: 1)  # padding is not counted; leave it out
    costs = []
    for batch_size in (1, 8):
        backbone = Instrumented(GEOMETRIES[geometry])
        engine = Engine(backbone)
        decide = make_lookahead_search(10, 4, 2, token_score, remask=True)
        decoding = Decoding(max_new_tokens=NEW_TOKENS, block_length=10)
        done = list(decode(SAMPLES, engine, decoding, decide, batch_size=batch_size))
        counters = engine.counters
        assert (counters.forwards, counters.forward_rows, counters.forward_tokens) == (
            backbone.calls,
            backbone.rows,
            backbone.tokens,
        )
        assert counters.head_rows == backbone.head_rows
        assert sum(g.cost.forward_rows for g in done) == counters.forward_rows
        assert sum(g.cost.forward_tokens for g in done) == counters.forward_tokens
        assert sum(g.cost.head_rows for g in done) == counters.head_rows
        costs.append({g.sample.id: g.cost for g in done})
    assert costs[0] == costs[1]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_row_logits_are_bit_equal_at_any_batch_size(geometry: str, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        seen: dict[int, list[Tensor]] = {}
        for batch_size in (1, 3, 16):
            collected: dict[str, list[Tensor]] = {}

            def collect(step: Any, collected: dict[str, list[Tensor]] = collected) -> Any:
                logits = step.logits()
                for r, row in enumerate(step.rows):
                    collected.setdefault(row.sample.id, []).append(logits[step.open.rows == r])
                return step.commit()

            samples = [Sample(f"s{i}", "w5 w9 " * (1 + i % 5)) for i in range(16)]
            backbone = TinyBackbone(GEOMETRIES[geometry])
            decoding = Decoding(max_new_tokens=12, block_length=6)
            list(decode(samples, Engine(backbone), decoding, collect, batch_size=batch_size))
            seen[batch_size] = [tensor for s in samples for tensor in collected[s.id]]
        for other in (3, 16):
            assert all(torch.equal(a, b) for a, b in zip(seen[1], seen[other], strict=True))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_committed_columns_have_logits_too(geometry: str) -> None:
    """Also those before the cached prefix's end: the forward then begins earlier."""
    backbone = TinyBackbone(GEOMETRIES[geometry])
    checked: list[float] = []

    def look_back(step: Step) -> Any:
        row = step.rows[0]
        if row.step == 25:
            columns = np.arange(row.start, row.length)[::5]
            probabilities = step.logits(Cells(np.zeros(len(columns), dtype=np.int64), columns)).double().softmax(-1)
            reference = NaiveRow(backbone, backbone.codec.encode_prompt(row.sample.prompt), row.sample.id)
            expected = reference.probabilities(row.canvas.copy(), 1.0)[columns]
            checked.append(float(np.abs(probabilities.numpy() - expected).max()))
        return step.commit()

    decoding = Decoding(max_new_tokens=NEW_TOKENS, block_length=10)
    list(decode(SAMPLES[:1], Engine(backbone), decoding, look_back))
    assert checked[0] < 1e-6


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_an_edit_of_a_committed_cell_is_really_evaluated(geometry: str) -> None:
    backbone = TinyBackbone(GEOMETRIES[geometry])
    checked: list[float] = []

    def change_the_past(step: Step) -> Any:
        row = step.rows[0]
        if row.step == 25:
            edit = Edit(0, np.array([row.start + 1]), np.array([17]))
            wanted = step.plans[0].scope
            ((_, logits),) = step.lookahead([edit]).logits([wanted])
            reference = NaiveRow(backbone, backbone.codec.encode_prompt(row.sample.prompt), row.sample.id)
            expected = reference.probabilities(row.edited(edit.columns, edit.tokens), 1.0)[wanted]
            checked.append(float(np.abs(logits.double().softmax(-1).numpy() - expected).max()))
        return step.commit()

    decoding = Decoding(max_new_tokens=NEW_TOKENS, block_length=10)
    list(decode(SAMPLES[:1], Engine(backbone), decoding, change_the_past))
    assert checked[0] < 1e-6


def test_only_rows_that_are_asked_for_are_forwarded() -> None:
    """A scheme that looks at one row only must not make the others pay, or cost would depend on the batch."""

    def look_at_one(step: Step) -> Any:
        cells = [
            (r, int(plan.scope[0]), 9) if row.sample.id != "s0" else None
            for r, (row, plan) in enumerate(zip(step.rows, step.plans, strict=True))
        ]
        for r, row in enumerate(step.rows):
            if row.sample.id == "s0":
                only = Cells(np.array([r]), step.plans[r].scope[:1])
                cells[r] = (r, int(only.columns[0]), int(step.logits(only).argmax()))
        return Commit.of([cell for cell in cells if cell])

    costs = []
    for batch_size in (1, 4):
        decoding = Decoding(max_new_tokens=8)
        done = decode(SAMPLES, Engine(TinyBackbone()), decoding, look_at_one, batch_size=batch_size)
        costs.append({g.sample.id: g.cost.forward_rows for g in done})
    assert costs[0] == costs[1] == {"s0": 8, "s1": 0, "s2": 0, "s3": 0}


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_look_ahead_is_bit_equal_alone_and_in_company(threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        config = TinyConfig(attention="block", attention_block=25, width=256, heads=4)
        seen: list[tuple[Tensor, Tensor]] = []

        def compare(step: Step) -> Any:
            if step.rows[0].step in (3, 30):
                scope = step.plans[0].scope
                edits = [Edit(0, scope[:1], np.array([token])) for token in range(5, 21)]
                together = dict(step.lookahead(edits).logits([scope[1:]] * 16))[0]
                step.rows[0].kept.clear()
                ((_, alone),) = step.lookahead(edits[:1]).logits([scope[1:]])
                seen.append((together, alone))
            return step.commit()

        decoding = Decoding(max_new_tokens=50, block_length=25)
        list(decode(SAMPLES[:1], Engine(TinyBackbone(config)), decoding, compare))
        assert len(seen) == 2
        assert all(torch.equal(a, b) for a, b in seen)
    finally:
        torch.set_num_threads(before)
