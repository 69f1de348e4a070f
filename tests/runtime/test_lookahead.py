"""Look-ahead by itself: shared forwards, own draws, laziness, reuse, memory bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from wmbench.errors import ConfigError, PluginError
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.runtime.engine import Engine
from wmbench.runtime.lookahead import Edit
from wmbench.runtime.loop import decode
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Cells, Step
from wmbench.types import Commit, Sample


@pytest.fixture(params=["full", "block"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return Engine(TinyBackbone(TinyConfig(attention=request.param, attention_block=10)))


def at_first_step(engine: Engine, look: Callable[[Step], Any], block_length: int | None = None) -> Any:
    """What `look` returns at the first step of two rows."""
    seen: list[Any] = []

    def decide(step: Step) -> Commit:
        if not seen:
            seen.append(look(step))
        return step.commit()

    decoding = Decoding(max_new_tokens=10, block_length=block_length)
    list(decode([Sample("a", "w5 w6"), Sample("b", "w7")], engine, decoding, decide))
    return seen[0]


def edit(step: Step, row: int, place: int, token: int) -> Edit:
    return Edit(row, np.array([step.rows[row].start + place]), np.array([token]))


def test_equal_candidates_share_a_forward_but_keep_their_own_draws(engine: Engine) -> None:
    def look(step: Step) -> tuple[list[np.ndarray], list[np.ndarray], int]:
        edits = [edit(step, 0, 3, 9), edit(step, 0, 3, 9), edit(step, 0, 3, 12), edit(step, 1, 3, 9)]
        columns = [step.rows[e.row].start + np.array([5, 6]) for e in edits]
        rng = np.random.default_rng(0)
        uniforms = [rng.random((2, 40)) for _ in edits]
        before = engine.counters.forward_rows
        ahead = step.lookahead(edits)
        base = engine.counters.forward_rows - before
        assert ahead.representatives.tolist() == [0, 0, 2, 3]
        together = ahead.sample(columns, uniforms, 0.7)
        forwards = engine.counters.forward_rows - before - base
        alone = [step.lookahead([e]).sample([c], [u], 0.7)[0] for e, c, u in zip(edits, columns, uniforms, strict=True)]
        return together, alone, forwards

    together, alone, forwards = at_first_step(engine, look)
    assert forwards == 3
    assert all(np.array_equal(a, b) for a, b in zip(together, alone, strict=True))
    assert not np.array_equal(together[0], together[1])


@pytest.mark.parametrize("places", [(1, 9), (9, 1)])
def test_equal_candidates_may_be_asked_for_different_columns(places: tuple[int, int]) -> None:
    """One forward reaches the columns of both: here the second place lies in a later attention block."""
    engine = Engine(TinyBackbone(TinyConfig(attention="block", attention_block=5)))

    def look(step: Step) -> tuple[list[torch.Tensor], list[torch.Tensor], int]:
        edits = [edit(step, 0, 0, 9)] * 2
        columns = [step.rows[0].start + np.array([place]) for place in places]
        ahead, before = step.lookahead(edits), engine.counters.forward_rows
        together = dict(ahead.logits(columns))
        forwards = engine.counters.forward_rows - before
        alone = [dict(step.lookahead([e]).logits([c]))[0] for e, c in zip(edits, columns, strict=True)]
        return [together[0], together[1]], alone, forwards

    together, alone, forwards = at_first_step(engine, look, block_length=5)
    assert forwards == 1
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_nothing_is_forwarded_until_it_is_asked_for(engine: Engine) -> None:
    def look(step: Step) -> list[int]:
        step.logits()
        counts = [engine.counters.forward_rows]
        ahead = step.lookahead([edit(step, 0, 0, 9), edit(step, 0, 1, 9)])
        counts.append(engine.counters.forward_rows)
        nothing = np.empty(0, dtype=np.int64)
        ahead.sample([nothing, nothing], [np.empty((0, 3)), np.empty((0, 3))], 0.5)
        counts.append(engine.counters.forward_rows)
        ahead.sample([nothing, np.array([step.rows[0].start + 4])], [np.empty((0, 3)), np.full((1, 3), 0.5)], 0.5)
        counts.append(engine.counters.forward_rows)
        return counts

    first, *later = at_first_step(engine, look)
    assert [count - first for count in later] == [0, 0, 1]


def test_memory_bounds_change_nothing_but_the_number_of_forwards() -> None:
    def look(step: Step) -> list[np.ndarray]:
        edits = [edit(step, 0, place, token) for place in range(3) for token in (8, 9, 10)]
        columns = [step.rows[0].start + np.arange(4, 9)] * len(edits)
        logits = dict(step.lookahead(edits).logits(columns))
        return [logits[i].numpy() for i in range(len(edits))]

    roomy, tight = (
        Engine(TinyBackbone(), **limits) for limits in ({}, {"max_forward_tokens": 60, "max_logit_values": 700})
    )
    for a, b in zip(at_first_step(roomy, look), at_first_step(tight, look), strict=True):
        assert np.array_equal(a, b)
    assert tight.counters.forwards > roomy.counters.forwards


def test_logits_come_in_the_order_of_the_cells(engine: Engine) -> None:
    def look(step: Step) -> tuple[torch.Tensor, torch.Tensor]:
        cells = Cells.ragged([plan.scope for plan in step.plans])
        mixed = np.random.default_rng(1).permutation(len(cells))
        return step.logits(cells)[mixed], step.logits(Cells(cells.rows[mixed], cells.columns[mixed]))

    assert torch.equal(*at_first_step(engine, look))


def test_no_cells_no_logits(engine: Engine) -> None:
    nothing = np.empty(0, dtype=np.int64)
    assert at_first_step(engine, lambda step: step.logits(Cells(nothing, nothing))).shape == (0, 67)


@pytest.mark.parametrize("column", [-1, 12])
def test_columns_outside_of_the_canvas_have_no_logits(engine: Engine, column: int) -> None:
    """Row 0 has two columns of prompt and ten of answer. Column -1 is no synonym for another one."""
    cells = Cells(np.array([0]), np.array([column]))
    with pytest.raises(IndexError, match="columns run from 0 to 11"):
        at_first_step(engine, lambda step: step.logits(cells))
    with pytest.raises(IndexError, match="columns run from 0 to 11"):
        at_first_step(engine, lambda step: list(step.lookahead([edit(step, 0, 3, 9)]).logits([cells.columns])))


@pytest.mark.parametrize(
    "bad",
    [
        lambda s: Edit(9, np.array([5]), np.array([7])),
        lambda s: Edit(0, np.array([0]), np.array([7])),
        lambda s: Edit(0, np.array([s.rows[0].length]), np.array([7])),
        lambda s: Edit(0, np.array([s.rows[0].start]), np.array([10_000])),
        lambda s: Edit(0, np.array([s.rows[0].start]), np.array([7, 8])),
    ],
)
def test_impossible_edits_are_refused(engine: Engine, bad: Callable[[Step], Edit]) -> None:
    with pytest.raises(PluginError, match="looked ahead"):
        at_first_step(engine, lambda step: step.lookahead([bad(step)]))


@pytest.mark.parametrize("spoil", [lambda x: x * torch.nan, lambda x: x - torch.inf, lambda x: x[:0]])
def test_unusable_logits_are_refused_at_any_temperature(engine: Engine, spoil: Callable[[Any], Any]) -> None:
    for temperature in (0.0, 0.5):
        decoding = Decoding(max_new_tokens=5, temperature=temperature)
        with pytest.raises(PluginError, match="logits to commit"):
            list(decode([Sample("a", "w5")], engine, decoding, lambda step: step.commit(spoil(step.logits()))))


# --- approximate: only a window is computed ------------------------------------------------------------------------


def looked_at(layers: int, window: tuple[int, int], shift: int = 0) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Exact and approximate logits of one edit, and the positions that each of them sent through the trunk."""
    engine = Engine(TinyBackbone(TinyConfig(layers=layers, shift=shift)))

    def look(step: Step) -> Any:
        start = step.rows[0].start
        edits, columns = [edit(step, 0, 3, 9)], [start + np.array([2, 4])]
        step.logits()
        step.lookahead(edits, [(start + window[0], start + window[1])])  # lazy
        found, counts = [], []
        for windows in (None, [(start + window[0], start + window[1])]):
            for _ in range(2):  # the first approximate look-ahead of a row also computes its surroundings
                before = engine.counters.forward_tokens
                found.append(dict(step.lookahead(edits, windows).logits(columns))[0])
                counts.append(engine.counters.forward_tokens - before)
        return found[0], found[-1], counts

    exact, approximate, counts = at_first_step(engine, look)
    return exact, approximate, counts


@pytest.mark.parametrize("shift", [0, 1])
def test_stale_surroundings_are_exact_in_one_layer(shift: int) -> None:
    """There keys and values of a column depend on its own token alone; in two layers they are an approximation."""
    exact, approximate, counts = looked_at(1, (2, 7), shift)
    torch.testing.assert_close(exact, approximate, atol=1e-5, rtol=0)
    assert counts == [12, 0, 12 + 5 + shift, 5 + shift], "the exact one is kept, the approximate one never is"
    exact, approximate, _ = looked_at(2, (2, 7), shift)
    assert not torch.allclose(exact, approximate, atol=1e-4, rtol=0, equal_nan=True)


def test_surroundings_follow_the_canvas() -> None:
    """A row that has looked ahead approximately keeps its surroundings with every base forward, at no extra cost."""
    engine = Engine(TinyBackbone(TinyConfig(layers=2)))
    costs = []

    def decide(step: Step) -> Commit:
        before = engine.counters.forward_tokens
        step.logits()
        row = step.rows[0]
        free = row.masked
        rest = [free[1:2]] if len(free) > 1 else [free[:0]]
        list(step.lookahead([Edit(0, free[:1], np.array([9]))], [(row.start, row.length)]).logits(rest))
        costs.append(engine.counters.forward_tokens - before)
        return step.commit()

    list(decode([Sample("a", "w5 w6")], engine, Decoding(max_new_tokens=6), decide))
    assert costs == [8 + 8 + 6, 8 + 6, 8 + 6, 8 + 6, 8 + 6, 8]


def test_windows_are_checked() -> None:
    def outside(step: Step) -> None:
        start = step.rows[0].start
        with pytest.raises(PluginError, match="outside of its window"):
            step.lookahead([edit(step, 0, 3, 9)], [(start + 4, start + 6)])
        for window in ((-1, start + 6), (start, step.rows[0].length + 1)):
            with pytest.raises(PluginError, match="leaves the canvas"):
                step.lookahead([edit(step, 0, 3, 9)], [window])
        with pytest.raises(PluginError, match="without a window"):
            step.lookahead([edit(step, 0, 3, 9)], [])

    def block_causal(step: Step) -> None:
        start = step.rows[0].start
        ahead = step.lookahead([edit(step, 0, 3, 9)], [(start, start + 6)])
        with pytest.raises(ConfigError, match="does not support approximate"):
            list(ahead.logits([np.array([start + 1])]))

    at_first_step(Engine(TinyBackbone(TinyConfig())), outside)
    at_first_step(Engine(TinyBackbone(TinyConfig(attention="block"))), block_causal)
