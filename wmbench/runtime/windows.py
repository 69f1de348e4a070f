"""How canvases become a batch: which stretch of each is forwarded, what it continues, and how wide it is padded.

A row's geometry is a function of the row alone, never of its neighbours in the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch

from wmbench.runtime.backbone import Attention, Backbone, Prefix, WindowGroup, Windows, safe_rows
from wmbench.runtime.row import Row
from wmbench.runtime.views import Request
from wmbench.types import IntArray

_PADDING_BLOCK = 2**31


def padded_width(width: int, continues_prefix: bool, safe: int) -> int:
    """Whole canvases in steps of 32, so that prompts of different length share a batch; continuations (a block or two)
    as they are; neither below the safe number of rows."""
    return max(safe, width if continues_prefix else -(-width // 32) * 32)


def first_column(request: Request, prefix: Prefix | None) -> int:
    """Where its window begins: behind the prefix, or inside its surroundings."""
    if request.around is not None:
        return request.begin
    return prefix.length if prefix else 0


def final_columns(row: Row, attention: Attention) -> int:
    """Columns whose keys and values are final: those before the first attention block that holds a mask."""
    if attention.block_length is None:
        return 0
    masked = row.masked
    first = int(masked[0]) if len(masked) else row.length
    return attention.first_column(attention.block(first, row.start), row.start)


def batched(requests: Sequence[Request], prefixes: Sequence[Prefix | None], width: int, backbone: Backbone) -> Windows:
    """All requests as windows of one width, and as many windows of padding as the safe number of rows asks for."""
    attention, device = backbone.attention, backbone.device
    batch = max(len(requests), -(-safe_rows(device) // width))
    windows = np.zeros((3, batch, width), dtype=np.int64)  # in one piece, so that they travel to the device at once
    ids, positions, blocks = windows
    positions += np.arange(width)
    blocks[: len(requests)] = _PADDING_BLOCK
    lengths, groups = [], list[WindowGroup]()
    for i, (request, prefix) in enumerate(zip(requests, prefixes, strict=True)):
        start = first_column(request, prefix)
        length = request.end - start
        ids[i, :length] = request.canvas[start : request.end]
        positions[i] += start
        blocks[i, :length] = _attention_blocks(request.row, start, request.end, attention)
        lengths.append(length)
        keep = _kept(request, start, length, attention)
        if (
            groups
            and keep == 0
            and groups[-1].keep == 0
            and requests[i - 1].row is request.row
            and prefix is groups[-1].prefix
        ):
            groups[-1] = WindowGroup(groups[-1].count + 1, prefix)
        else:
            groups.append(WindowGroup(1, prefix, keep))
    if batch > len(requests):
        groups.append(WindowGroup(batch - len(requests), None))
    on_device = torch.from_numpy(windows).to(device)
    return Windows(on_device[0], on_device[1], on_device[2], tuple(lengths), tuple(groups))


def _kept(request: Request, start: int, length: int, attention: Attention) -> int:
    """How many of the window's columns extend the row's prefix."""
    if request.keeps_all:
        return length
    return min(length, max(0, final_columns(request.row, attention) - start)) if request.is_base else 0


def _attention_blocks(row: Row, begin: int, end: int, attention: Attention) -> IntArray | int:
    """Attention blocks of the columns begin .. end."""
    if attention.block_length is None:
        return 0
    if attention.earlier == "merged":
        return _blocks_from(final_columns(row, attention), begin, end, attention.block_length)
    if attention.origin == "prompt":
        return _blocks_from(0, begin, end, attention.block_length)
    return _blocks_from(row.start, begin, end, attention.block_length)


@lru_cache(maxsize=256)  # a row's candidates all have the same
def _blocks_from(border: int, begin: int, end: int, block_length: int) -> IntArray:
    """Blocks of the columns begin .. end where they are counted from a border, before which all is block 0."""
    columns = np.arange(begin, end)
    return np.where(columns < border, 0, 1 + (columns - border) // block_length)
