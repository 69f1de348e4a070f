"""Classifier-free guidance, and what happens when memory runs out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from wmbench import hookimpl
from wmbench.errors import ConfigError
from wmbench.runtime.backbone import Prefix, Windows, safe_rows
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.runtime.engine import Engine
from wmbench.runtime.lookahead import Edit
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.runtime.step import Step
from wmbench.testing import run_scheme, toy_samples
from wmbench.types import Commit

DECODING = Decoding(max_new_tokens=12, block_length=6, positions="low_confidence")


def whole_canvas_logits(backbone: TinyBackbone, canvas: np.ndarray) -> Tensor:
    length = len(canvas)
    mask = torch.ones(1, 1, length, length, dtype=torch.bool)
    states = backbone.model(torch.from_numpy(canvas)[None], torch.arange(length)[None], mask)
    return backbone.logits(states[0])


@pytest.mark.parametrize("shift", [0, 1])
def test_guided_logits_follow_the_formula(shift: int) -> None:
    backbone = TinyBackbone(TinyConfig(shift=shift))  # type: ignore[arg-type]
    decoding = DECODING.model_copy(update={"guidance": 1.5})
    checked: list[float] = []

    def compare(step: Step) -> Commit:
        logits = step.logits()
        for r, row in enumerate(step.rows):
            blind = row.canvas.copy()
            blind[: row.start] = row.mask_id
            columns = torch.from_numpy(step.open.columns[step.open.rows == r]) - shift
            seen = whole_canvas_logits(backbone, row.canvas.copy())[columns]
            unseen = whole_canvas_logits(backbone, blind)[columns]
            difference = logits[torch.from_numpy(step.open.rows == r)] - (unseen + 2.5 * (seen - unseen))
            checked.append(float(difference[:, torch.from_numpy(step.engine.allowed)].abs().max()))
        return step.commit()

    engine = make_engine(backbone, decoding)
    done = list(decode(toy_samples(3), engine, decoding, compare, batch_size=3))
    assert max(checked) < 1e-5
    assert len(checked) == 36
    for generation in done:  # two forwards and two heads a step, and all of them are counted
        assert generation.cost.forward_rows == 2 * generation.cost.steps
    assert engine.counters.head_rows == sum(g.cost.head_rows for g in done)


def test_guidance_changes_texts_but_not_with_the_batch() -> None:
    guided = DECODING.model_copy(update={"guidance": 2.0})
    texts = [
        {g.sample.id: g.text for g in decode(toy_samples(4), make_engine(TinyBackbone(), d), d, batch_size=size)}
        for d, size in ((DECODING, 4), (guided, 1), (guided, 4))
    ]
    assert texts[0] != texts[1]
    assert texts[1] == texts[2]


def test_guidance_needs_full_attention() -> None:
    with pytest.raises(ConfigError, match="full attention"):
        make_engine(TinyBackbone(TinyConfig(attention="block")), Decoding(guidance=1.0))


NO_ROOM = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")


class SmallMemory(TinyBackbone):
    """Has room for so many windows in a forward, and for so many rows of logits."""

    def __init__(self, room: int, config: TinyConfig, logit_rows: int = 10**6) -> None:
        super().__init__(config)
        self.room, self.logit_rows = room, logit_rows

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        if len(windows.lengths) > self.room:
            raise NO_ROOM
        return super().hidden(windows)

    def logits(self, states: Tensor) -> Tensor:
        if len(states) > self.logit_rows:
            raise NO_ROOM
        return super().logits(states)


@pytest.mark.parametrize("attention", ["full", "block"])
def test_out_of_memory_lowers_the_batch_and_says_so(attention: Any) -> None:
    config = TinyConfig(attention=attention)
    plenty = list(decode(toy_samples(6), Engine(TinyBackbone(config)), DECODING, batch_size=6))
    engine = Engine(SmallMemory(2, config))
    with pytest.warns(UserWarning, match="out of memory with .* going on with"):
        little = list(decode(toy_samples(6), engine, DECODING, batch_size=6))
    assert little == plenty, "texts and costs must not depend on how much fits"


def test_out_of_memory_with_a_single_row_is_an_error() -> None:
    with pytest.raises(ConfigError, match="single canvas") as caught, pytest.warns(UserWarning, match="out of memory"):
        list(decode(toy_samples(2), Engine(SmallMemory(0, TinyConfig(max_length=64))), DECODING, batch_size=2))
    assert "--batch-size" in str(caught.value.hint)


def test_out_of_memory_in_a_scheme_is_no_fault_of_the_scheme() -> None:
    """Token draws need memory, too, and are made inside of its hook."""

    class Large:
        @hookimpl
        def decode_step(self, step: Step) -> Commit:
            raise NO_ROOM

    with pytest.raises(ConfigError, match="decodes 2 samples at once") as caught:
        run_scheme(Large(), TinyBackbone(), toy_samples(2))
    assert "--batch-size" in str(caught.value.hint)


@pytest.mark.parametrize("guidance", [0.0, 1.0])
def test_out_of_memory_in_the_head_computes_fewer_logits_at_once(guidance: float) -> None:
    """Base logits of a whole batch, and those of look-ahead; neither tokens nor costs move."""
    decoding = DECODING.model_copy(update={"max_new_tokens": 48, "block_length": 48, "guidance": guidance})

    def look_ahead(step: Step) -> Commit:
        commit = step.commit()
        edits = [Edit(int(r), commit.columns[i : i + 1], commit.tokens[i : i + 1]) for i, r in enumerate(commit.rows)]
        wanted = [row.masked[row.masked != edit.columns[0]] for edit in edits for row in [step.rows[edit.row]]]
        for _ in step.lookahead(edits).logits(wanted):
            pass
        return commit

    plenty = list(decode(toy_samples(3), make_engine(TinyBackbone(), decoding), decoding, look_ahead, batch_size=3))
    room = safe_rows(torch.device("cpu"))
    engine = make_engine(SmallMemory(10**6, TinyConfig(), logit_rows=room), decoding)
    with pytest.warns(UserWarning, match="out of memory with the logits of .* going on with"):
        little = list(decode(toy_samples(3), engine, decoding, look_ahead, batch_size=3))
    assert little == plenty
    assert 0 < engine.logit_rows <= room


def test_out_of_memory_on_the_logits_of_one_position_is_an_error() -> None:
    engine = Engine(SmallMemory(10**6, TinyConfig(), logit_rows=0))
    with pytest.raises(ConfigError, match="single position") as caught, pytest.warns(UserWarning, match="logits of"):
        list(decode(toy_samples(2), engine, DECODING, batch_size=2))
    assert "--batch-size" in str(caught.value.hint)


def test_out_of_memory_of_a_scheme_is_an_error_with_a_next_step() -> None:
    def greedy_for_memory(step: Step) -> Commit:
        raise NO_ROOM

    with pytest.raises(ConfigError, match="decodes 2 samples at once") as caught:
        list(decode(toy_samples(2), Engine(TinyBackbone()), DECODING, greedy_for_memory, batch_size=2))
    assert "--batch-size" in str(caught.value.hint)
