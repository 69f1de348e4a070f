"""Is a loaded backbone what the runtime takes it for? A few forwards, no text is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wmbench.runtime.backbone import Backbone
from wmbench.runtime.engine import Engine
from wmbench.runtime.randomness import SampleRandom
from wmbench.runtime.row import Row
from wmbench.types import Sample

_PROMPTS = ("Why?", "Name three rivers and say where they rise.", "Write a short letter to a friend. " * 6)
_ANSWER = 40


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a model in memory."""

    parameters: int
    active: int
    """Parameters that one position meets: of a mixture only its own experts."""
    head: int
    """Parameters of the LM head, which are paid for separately."""
    bytes: int


def padding_error(backbone: Backbone) -> float:
    """Largest difference of a row's logits alone and among longer and shorter rows of a padded batch."""
    rows = [_row(backbone, prompt) for prompt in _PROMPTS]
    together = _masked_logits(Engine(backbone), rows)
    alone = [_masked_logits(Engine(backbone), [_row(backbone, prompt)])[0] for prompt in _PROMPTS]
    return max(_difference(one, other) for one, other in zip(together, alone, strict=True))


def prefix_error(backbone: Backbone) -> float | None:
    """Largest difference of logits that continue the prefix cache and logits without one; None: there is no cache."""
    length = backbone.attention.block_length
    if length is None:
        return None
    row, fresh = (_row(backbone, _PROMPTS[1], 2 * length + 3) for _ in range(2))
    engine = Engine(backbone)
    _masked_logits(engine, [row])
    for each in (row, fresh):
        columns = np.arange(each.start, each.start + length + 1)
        each.fill(columns, np.full(len(columns), some_text_id(backbone)))
    _masked_logits(engine, [row])  # the completed block joins the cache
    row.kept.clear()
    return _difference(_masked_logits(engine, [row])[0], _masked_logits(Engine(backbone), [fresh])[0])


def sizes(backbone: Backbone) -> Sizes | None:
    """None where the model does not show its parameters."""
    model = getattr(getattr(backbone, "carrier", backbone), "model", None)
    return sizes_of(model) if isinstance(model, torch.nn.Module) else None


def sizes_of(model: torch.nn.Module) -> Sizes:
    parameters = dict(model.named_parameters())  # a tied head is named once
    total = sum(p.numel() for p in parameters.values())
    embedding, head = (_table(model, f"get_{kind}_embeddings") for kind in ("input", "output"))
    tables = {id(table): table.numel() for table in (embedding, head) if table is not None}
    active = total - sum(tables.values())
    config: Any = getattr(model, "config", None)
    if (experts := getattr(config, "n_routed_experts", None)) is not None:
        in_experts = sum(p.numel() for name, p in parameters.items() if ".experts." in name)
        active -= in_experts * (experts - config.num_experts_per_tok) // experts
    size = sum(p.nbytes for p in parameters.values())
    return Sizes(total, active, 0 if head is None else head.numel(), size)


def _table(model: torch.nn.Module, getter: str) -> Tensor | None:
    """The embedding or the head of a model of transformers."""
    found = getattr(model, getter, lambda: None)()
    return None if found is None else found.weight


def _row(backbone: Backbone, prompt: str, answer: int = _ANSWER) -> Row:
    ids = backbone.codec.encode_prompt(prompt)[: max(1, backbone.max_length - answer)]
    return Row(Sample("check", prompt), ids, answer, backbone.mask_id, SampleRandom(0, "check"))


def _masked_logits(engine: Engine, rows: Sequence[Row]) -> list[Tensor]:
    spans = [engine.span(row, row.masked) for row in rows]
    views = engine.base_views(rows, spans)
    return [engine.logits(view.at(row.masked), []) for view, row in zip(views, rows, strict=True)]


def _difference(one: Tensor, other: Tensor) -> float:
    """The largest; banned ids are minus infinity in both. Infinite where one of them is no number."""
    allowed = ~(one.isneginf() & other.isneginf())
    return float((one[allowed] - other[allowed]).abs().nan_to_num(nan=torch.inf).max())


def some_text_id(backbone: Backbone) -> int:
    """An id that stands for text."""
    banned = {*backbone.banned_ids, *backbone.eos_ids}
    return next(i for i in range(backbone.codec.size // 2, backbone.codec.size) if i not in banned)
