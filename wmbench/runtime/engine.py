"""Every model forward goes through here: windows are chosen, counted, split by a memory bound, and their states kept.

A row's window (see `windows.py`) does not depend on its neighbours in the batch; together with a safe minimum of rows
per matrix product this makes its logits bit-equal at any batch size on CPU.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from wmbench.errors import ConfigError
from wmbench.runtime.backbone import Backbone, Prefix, Surroundings, safe_rows
from wmbench.runtime.row import Row
from wmbench.runtime.views import HiddenView, Request
from wmbench.runtime.windows import batched, final_columns, first_column, padded_width
from wmbench.types import IntArray

GPU_FORWARD_TOKENS = 16_384
CPU_FORWARD_TOKENS, CPU_LOGIT_ROWS = 1024, 256
"""What is computed at once. A CPU is fastest on what stays in its cache, and products of so many rows are large enough
for models of any size."""


@dataclass(slots=True)
class Counters:
    """What was really sent to the model, summed over all samples."""

    forwards: int = 0
    forward_rows: int = 0
    forward_tokens: int = 0
    head_rows: int = 0
    reused: int = 0
    """Base states that were there already: computed as somebody's look-ahead, or by the row that forked."""


def _say_smaller(too_much: str, goes_on_with: int) -> None:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    warnings.warn(f"out of memory with {too_much}; going on with {goes_on_with}", stacklevel=4)


def _without_prompt(request: Request) -> IntArray:
    canvas = request.canvas.copy()
    canvas[: request.row.start] = request.row.mask_id
    return canvas


@dataclass
class Engine:
    """Runs a backbone under a memory bound."""

    backbone: Backbone
    banned: Sequence[int] = ()
    """Banned ids on top of the backbone's own (for instance EOS)."""
    max_forward_tokens: int = 0
    """Positions per forward; look-ahead over more candidates than fit is split. 0: as many as suit the device."""
    max_logit_values: int = 2**27
    """Logits computed at once (float32: 512 MiB)."""
    guidance: float = 0.0
    """w of classifier-free guidance, l = l_without + (w + 1) (l_with - l_without), without the prompt; 0: none."""
    counters: Counters = field(default_factory=Counters)

    def __post_init__(self) -> None:
        if self.guidance and self.backbone.attention.block_length is not None:
            raise ConfigError(
                "guidance works with full attention only",
                why=f"{self.backbone.name} is block-causal: its prefix cache holds the prompt",
                hint="leave out -D guidance",
            )
        if not self.max_forward_tokens:
            on_cpu = self.backbone.device.type == "cpu"
            self.max_forward_tokens = CPU_FORWARD_TOKENS if on_cpu else GPU_FORWARD_TOKENS
        banned = sorted({*self.backbone.banned_ids, *self.banned})
        self.banned_ids = torch.tensor(banned, dtype=torch.int64, device=self.backbone.device)
        self.allowed = np.ones(self.backbone.vocab_size, dtype=bool)
        self.allowed[banned] = False

    # --- trunk -------------------------------------------------------------------------------------------------

    def span(self, row: Row, columns: IntArray) -> tuple[int, int]:
        """First state that is needed to predict these columns, and how far a forward must reach."""
        first, last = int(columns.min()), int(columns.max())
        if first < 0 or last >= row.length:
            raise IndexError(f"columns run from 0 to {row.length - 1}, but {first} to {last} were asked for")
        return max(0, first - self.backbone.logit_shift), self.backbone.attention.end(last, row.start, row.length)

    def cacheable(self, row: Row) -> int:
        """Columns whose keys and values are final."""
        return final_columns(row, self.backbone.attention)

    def base_views(self, rows: Sequence[Row], spans: Sequence[tuple[int, int]]) -> list[HiddenView]:
        """States of each row's present canvas over its span: kept ones where the canvas was evaluated before."""
        views: dict[int, HiddenView] = {}
        requests: list[tuple[int, Request]] = []
        for i, (row, (begin, end)) in enumerate(zip(rows, spans, strict=True)):
            kept = row.kept.get(row.canvas.tobytes())
            cached = row.prefix.length if row.prefix else 0
            if kept is not None and kept.start <= begin and kept.end >= end and self.cacheable(row) <= cached:
                views[i] = kept
                self.counters.reused += 1
            else:
                requests.append((i, Request(row, row.canvas, begin, end, is_base=True)))
        for (i, request), view in zip(requests, self.forward([r for _, r in requests]), strict=True):
            views[i] = view
            request.row.kept[request.canvas.tobytes()] = view
        return [views[i] for i in range(len(rows))]

    def forget_changed(self, row: Row) -> None:
        """Called when cells were given back: forget what a row's caches hold of columns that are no longer final."""
        if row.prefix is None:
            return
        row.kept.clear()
        final = self.cacheable(row)
        if row.prefix.length > final:
            merged = self.backbone.attention.earlier == "merged"
            row.prefix = None if merged or not final else row.prefix.crop(final)

    def surroundings(self, rows: Sequence[Row]) -> list[Surroundings]:
        """Keys and values of each row's whole present canvas; forwarded for rows that did not keep them."""
        if self.backbone.attention.block_length is not None:
            raise self._cannot_approximate("its attention is block-causal, where the prefix cache is exact")
        if self.guidance:
            raise self._cannot_approximate("guidance forwards every canvas without its prompt too")
        stale = [row for row in rows if row.surroundings is None or row.surroundings[0] != row.canvas.tobytes()]
        for row in stale:
            row.keeps_surroundings = True
        self.forward([Request(row, row.canvas, 0, row.length, is_base=True) for row in stale])
        found = [row.surroundings for row in rows if row.surroundings is not None]
        if len(found) < len(rows):
            raise self._cannot_approximate("it keeps no keys and values that could stand on both sides of a window")
        return [kept for _, kept in found]

    def _cannot_approximate(self, why: str) -> ConfigError:
        return ConfigError(
            f"backbone {self.backbone.name} does not support approximate look-ahead",
            why=why,
            hint="leave out the scheme's approximate option",
        )

    def forward(self, requests: Sequence[Request]) -> list[HiddenView]:
        """One view per request, in order. Requests of one row should be neighbours: they share its prefix."""
        if not self.guidance:
            return self._forward(requests)
        blind = [replace(request, canvas=_without_prompt(request)) for request in requests]
        views = self._forward([*requests, *blind])
        pairs = zip(views[: len(requests)], views[len(requests) :], strict=True)
        return [replace(seen, states=torch.cat([seen.states, unseen.states], -1)) for seen, unseen in pairs]

    def _forward(self, requests: Sequence[Request]) -> list[HiddenView]:
        safe = safe_rows(self.backbone.device)
        prefixes = [self._usable_prefix(request) for request in requests]
        buckets: dict[int, list[int]] = defaultdict(list)
        for i, (request, prefix) in enumerate(zip(requests, prefixes, strict=True)):
            width = request.end - first_column(request, prefix)
            buckets[padded_width(width, prefix is not None, safe)].append(i)
        views: dict[int, HiddenView] = {}
        for width, members in buckets.items():
            at = 0
            while at < len(members):
                part = members[at : at + max(1, self.max_forward_tokens // width)]
                try:
                    done = self._forward_same_width([requests[i] for i in part], [prefixes[i] for i in part], width)
                except torch.OutOfMemoryError as error:
                    self._retreat(len(part), width, error)
                    continue
                views.update(zip(part, done, strict=True))
                at += len(part)
        return [views[i] for i in range(len(requests))]

    def _retreat(self, windows: int, width: int, error: torch.OutOfMemoryError) -> None:
        """Halve the forwards, say so, and go on: a row's result does not depend on its company."""
        if windows == 1:
            raise self.out_of_memory(error, f"on a single canvas of {width} positions") from error
        self.max_forward_tokens = windows // 2 * width
        _say_smaller(f"{windows} canvases of {width} positions in one forward", windows // 2)

    def out_of_memory(self, error: torch.OutOfMemoryError, when: str) -> ConfigError:
        """Where no smaller part is left to try."""
        return ConfigError(
            f"{self.backbone.name} runs out of memory {when}",
            why=(str(error).strip().splitlines() or ["no reason given"])[0],
            hint="use a smaller --batch-size, a shorter answer, bfloat16, or several GPUs (--device split)",
        )

    def _usable_prefix(self, request: Request) -> Prefix | None:
        """The row's prefix, cropped to whole blocks before the first state that is asked for."""
        row, attention = request.row, self.backbone.attention
        if request.around is not None:
            return request.around
        if row.prefix is None:
            return None
        if attention.earlier == "merged":  # only as a whole, and only while the border stands where it was
            return row.prefix if row.prefix.length == self.cacheable(row) <= request.begin else None
        if request.begin >= row.prefix.length:
            return row.prefix
        length = attention.first_column(attention.block(request.begin, row.start), row.start)
        return row.prefix.crop(length) if length else None

    def _forward_same_width(
        self, requests: Sequence[Request], prefixes: Sequence[Prefix | None], width: int
    ) -> list[HiddenView]:
        windows = batched(requests, prefixes, width, self.backbone)
        states, extended = self.backbone.hidden(windows)
        self._count(requests, windows.lengths)
        at = 0
        for group, prefix in zip(windows.groups, extended, strict=True):
            if prefix is not None:
                self._keep(requests[at], prefix)
            at += group.count
        return [
            HiddenView(first_column(request, prefix), states[i, :length], self.backbone.logit_shift)
            for i, (request, prefix, length) in enumerate(zip(requests, prefixes, windows.lengths, strict=True))
        ]

    def _count(self, requests: Sequence[Request], lengths: Sequence[int]) -> None:
        self.counters.forwards += 1
        self.counters.forward_rows += len(requests)
        self.counters.forward_tokens += sum(lengths)
        for request, length in zip(requests, lengths, strict=True):
            request.row.forward_rows += 1
            request.row.forward_tokens += length

    def _keep(self, request: Request, prefix: Prefix) -> None:
        if not request.keeps_all:
            request.row.prefix = prefix
        elif isinstance(prefix, Surroundings):
            request.row.surroundings = request.canvas.tobytes(), prefix

    # --- head --------------------------------------------------------------------------------------------------

    def logits(self, states: Tensor, owners: Iterable[tuple[Row, int]]) -> Tensor:
        """Logits [n, V] with banned ids at minus infinity. `owners` says which row pays for how many states."""
        heads = 2 if self.guidance else 1
        for row, count in owners:
            row.head_rows += heads * count
        self.counters.head_rows += heads * len(states)
        whole: Tensor | None = None
        at = 0
        while at < len(states):
            part = states[at : at + self.logit_rows]
            try:
                logits = self._head(part)
            except torch.OutOfMemoryError as error:
                self._retreat_from_head(len(part), error)
                continue
            if len(part) == len(states):
                return logits
            # Parts go straight to where they stay: joined in the end, they would need twice the memory.
            whole = self._room_for_logits(len(states)) if whole is None else whole
            whole[at : at + len(part)] = logits
            at += len(part)
        return self._room_for_logits(0) if whole is None else whole

    def _head(self, states: Tensor) -> Tensor:
        count = len(states)
        missing = safe_rows(self.backbone.device) - count
        if missing > 0:
            states = torch.cat([states, states[-1:].expand(missing, -1)])
        if self.guidance:
            seen, unseen = (self.backbone.logits(half)[:count] for half in states.chunk(2, dim=-1))
            logits = unseen + (self.guidance + 1) * (seen - unseen)
        else:
            logits = self.backbone.logits(states)[:count]
        return logits.index_fill(1, self.banned_ids, -torch.inf)

    def _room_for_logits(self, rows: int) -> Tensor:
        try:
            return torch.empty(rows, self.backbone.vocab_size, device=self.backbone.device)
        except torch.OutOfMemoryError as error:
            raise self.out_of_memory(error, f"on the logits of {rows} positions") from error

    def _retreat_from_head(self, rows: int, error: torch.OutOfMemoryError) -> None:
        """Halve the logits that are computed at once; look-ahead then asks for fewer at a time, too."""
        if rows == 1:
            raise self.out_of_memory(error, "on the logits of a single position") from error
        self.max_logit_values = rows // 2 * self.backbone.vocab_size
        _say_smaller(f"the logits of {rows} positions", rows // 2)

    @property
    def logit_rows(self) -> int:
        """How many rows of logits fit the memory bound."""
        rows = max(1, self.max_logit_values // self.backbone.vocab_size)
        return min(rows, CPU_LOGIT_ROWS) if self.backbone.device.type == "cpu" else rows
