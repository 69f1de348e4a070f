"""The authors' decoding loops, written down plainly, give the tokens that their settings give here (greedy, so that no
draw is involved). Logits come from the formulas of `reference.py`; the bans of the runtime hold in both.

The settings are those of the table in docs/real-models.md.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.backbones import reference
from tests.backbones.families import load
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.types import Sample

PROMPTS = ["Which one?", "Save a little every month"]
NEW = 16
Predict = Callable[[Tensor], Tensor]
"""Logits [L, V] of a canvas [L]."""


def predictor(kind: str, directory: Path, banned: list[int]) -> Predict:
    config, weights = reference.read(directory)

    def predict(canvas: Tensor) -> Tensor:
        if kind == "llada2":
            logits = reference.llada2(canvas, config, weights, torch.arange(len(canvas)) // 8)
        else:
            logits = {"llada": reference.llada, "dream": reference.dream}[kind](canvas, config, weights)
        return logits.double().index_fill(1, torch.tensor(banned), -torch.inf)

    return predict


def llada_loop(
    predict: Predict, x: Tensor, start: int, mask: int, *, block: int, steps: int, cfg: float = 0.0, last: Any = ()
) -> Tensor:
    """Low confidence: per block the most probable k_s cells; `last` are ids that wait until nothing else is left."""
    steps_per_block = steps // (NEW // block)
    for first in range(start, start + NEW, block):
        share, rest = divmod(block, steps_per_block)
        for s in range(steps_per_block):
            logits = predict(x)
            if cfg:
                blind = x.clone()
                blind[:start] = mask
                unseen = predict(blind)
                logits = torch.where(logits.isinf(), logits, unseen + (cfg + 1) * (logits - unseen))
            chosen = logits.argmax(-1)
            sure = logits.softmax(-1).gather(-1, chosen[:, None])[:, 0]
            sure = torch.where(torch.isin(chosen, torch.tensor(list(last), dtype=torch.long)), -1.0, sure)
            opened = (x == mask) & (torch.arange(len(x)) >= start) & (torch.arange(len(x)) < first + block)
            best = torch.where(opened, sure, -torch.inf).topk(share + (s < rest)).indices
            x[best] = chosen[best]
    return x[start:]


def dream_loop(
    predict: Predict, x: Tensor, start: int, mask: int, *, alg: str, steps: int, top_p: float = 1.0, eps: float = 1e-3
) -> Tensor:
    times = torch.linspace(1, eps, steps + 1)
    for i in range(steps):
        open_ = (x == mask).nonzero()[:, 0]
        logits = predict(x)[open_]
        ordered, order = logits.sort(-1, descending=True)
        before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
        logits = logits.masked_fill(torch.zeros_like(logits, dtype=torch.bool).scatter(1, order, before > top_p), -1e30)
        p = logits.softmax(-1)
        best = p.topk(2, -1).values
        sure = {
            "maskgit_plus": best[:, 0],
            "topk_margin": best[:, 0] - best[:, 1],
            "entropy": (p * torch.log(p + 1e-10)).sum(-1),
        }[alg]
        count = int(len(open_) * (1 - times[i + 1] / times[i])) if i < steps - 1 else len(open_)
        filled = sure.topk(count).indices
        x[open_[filled]] = p.argmax(-1)[filled]
    return x[start:]


def llada2_loop(
    predict: Predict, x: Tensor, start: int, mask: int, *, block: int, steps: int, threshold: float, ends: Any = ()
) -> Tensor:
    """Blocks are counted from the first prompt token; only what lies before the end of the block is fed."""
    for number in range(start // block, -(-len(x) // block)):
        end = min(len(x), (number + 1) * block)
        for s in range(steps):
            opened = (x[:end] == mask).nonzero()[:, 0]
            if not len(opened):
                break
            p = predict(x[:end])[opened].softmax(-1)
            sure, chosen = p.max(-1)
            count = block // steps + (s < block % steps)
            high = (sure > threshold).nonzero()[:, 0]
            filled = high if len(high) >= count else sure.topk(min(count, len(opened))).indices
            x[opened[filled]] = chosen[filled]
        hits = [i for i in range(start, end) if int(x[i]) in ends]
        if hits:
            return x[start : hits[0] + 1]
    return x[start:]


def both(
    kind: str,
    backbone: Backbone,
    directory: Path,
    decoding: dict[str, Any],
    loop: Callable[..., Tensor],
    **options: Any,
) -> tuple[list[list[int]], list[list[int]]]:
    settings = Decoding(max_new_tokens=NEW, temperature=0.0, **decoding)
    engine = make_engine(backbone, settings)
    samples = [Sample(f"s{i}", prompt) for i, prompt in enumerate(PROMPTS)]
    done = {g.sample.id: list(g.token_ids) for g in decode(samples, engine, settings, batch_size=2)}
    predict = predictor(kind, directory, np.flatnonzero(~engine.allowed).tolist())
    expected = []
    for prompt in PROMPTS:
        ids = backbone.codec.encode_prompt(prompt)
        canvas = torch.tensor([*ids, *[backbone.mask_id] * NEW])
        expected.append(loop(predict, canvas, len(ids), backbone.mask_id, **options).tolist())
    return [done[sample.id] for sample in samples], expected


@pytest.mark.parametrize(
    ("decoding", "options"),
    [
        ({"block_length": 16, "steps": 16}, {"block": 16, "steps": 16}),
        ({"block_length": 8, "steps": 6}, {"block": 8, "steps": 6}),
        ({"block_length": 16, "steps": 8, "guidance": 1.5}, {"block": 16, "steps": 8, "cfg": 1.5}),
    ],
    ids=["one block", "uneven budgets", "guidance"],
)
def test_llada(decoding: dict[str, Any], options: dict[str, Any], checkpoints: dict[str, Path]) -> None:
    backbone = load("llada", checkpoints["llada"])
    decoding = {"schedule": "block", "positions": "low_confidence", **decoding}
    found, expected = both("llada", backbone, checkpoints["llada"], decoding, llada_loop, **options)
    assert found == expected


def test_llada_places_ends_last(checkpoints: dict[str, Path]) -> None:
    """The two ids that this random model likes best stand for the end of text and of turn."""
    backbone = load("llada", checkpoints["llada"])
    directory, common = checkpoints["llada"], {"schedule": "block", "positions": "low_confidence", "block_length": 16}
    common |= {"steps": 8}
    plain, _ = both("llada", backbone, directory, common, llada_loop, block=16, steps=8)
    backbone.eos_ids = frozenset({plain[0][0], plain[1][-1]})
    options = {"block": 16, "steps": 8, "last": backbone.eos_ids}
    found, expected = both("llada", backbone, directory, {**common, "eos_last": True}, llada_loop, **options)
    assert found == expected
    assert found != plain


@pytest.mark.parametrize("top_p", [1.0, 0.3])
@pytest.mark.parametrize(
    ("alg", "positions"), [("maskgit_plus", "low_confidence"), ("topk_margin", "margin"), ("entropy", "entropy")]
)
def test_dream(alg: str, positions: str, top_p: float, checkpoints: dict[str, Path]) -> None:
    backbone = load("dream", checkpoints["dream"])
    decoding = {"schedule": "quota", "positions": positions, "steps": 9, "tempered_confidence": True, "top_p": top_p}
    found, expected = both("dream", backbone, checkpoints["dream"], decoding, dream_loop, alg=alg, steps=9, top_p=top_p)
    assert found == expected


@pytest.mark.parametrize("threshold", [0.95, 0.05])
def test_llada2(threshold: float, checkpoints: dict[str, Path]) -> None:
    """Blocks of 8, so that there are several; the second prompt ends inside a block."""
    backbone = load("llada2", checkpoints["llada2"], attention_block=8)
    assert len(backbone.codec.encode_prompt(PROMPTS[1])) % 8
    decoding = {"schedule": "threshold", "block_length": 8, "block_origin": "prompt", "steps": 10}
    decoding |= {"threshold": threshold, "tempered_confidence": True, "eos": "stop"}
    options = {"block": 8, "steps": 5, "threshold": threshold, "ends": backbone.eos_ids}
    found, expected = both("llada2", backbone, checkpoints["llada2"], decoding, llada2_loop, **options)
    assert found == expected
