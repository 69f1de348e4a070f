"""One sample in flight: its canvas, its clock, its caches and its cost."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from wmbench.runtime.randomness import SampleRandom
from wmbench.types import Cost, IntArray, Sample

if TYPE_CHECKING:
    import numpy.typing as npt

    from wmbench.runtime.backbone import Prefix, Surroundings
    from wmbench.runtime.views import HiddenView


class Row:
    """A canvas of prompt ids followed by generated columns, some of them still masked.

    Columns are absolute: 0 is the first prompt token, `start` the first generated one.
    """

    def __init__(
        self, sample: Sample, prompt_ids: list[int], new_tokens: int, mask_id: int, random: SampleRandom
    ) -> None:
        self.sample = sample
        self.start = len(prompt_ids)
        self.mask_id = mask_id
        self.random = random
        self.step = 0
        self.state: Any = None
        """The scheme's own state for this sample, as returned by `begin`."""
        self.ticks: dict[int, int] = {}
        """The schedule's clock: steps used, by block."""
        self.visits = np.zeros(self.start + new_tokens, dtype=np.int16)
        """How often each column was filled."""
        self.prefix: Prefix | None = None
        self.kept: dict[bytes, HiddenView] = {}
        """Hidden states by canvas content: an evaluated canvas is never forwarded twice."""
        self.surroundings: tuple[bytes, Surroundings] | None = None
        """A canvas and the keys and values of all its columns, for approximate look-ahead."""
        self.keeps_surroundings = False
        """Base forwards keep them from the first approximate look-ahead on."""
        self.forward_rows = self.forward_tokens = self.head_rows = 0
        self._own(np.full(self.start + new_tokens, mask_id, dtype=np.int64))
        self._canvas[: self.start] = prompt_ids

    def _own(self, canvas: IntArray) -> None:
        self._canvas = canvas
        self.canvas = canvas.view()
        """The ids [start + new_tokens], not to be written to; masked cells hold the mask id."""
        self.canvas.flags.writeable = False
        self._masked: IntArray | None = None

    @property
    def length(self) -> int:
        return len(self._canvas)

    @property
    def masked(self) -> IntArray:
        """Masked columns, ascending. A prompt may contain the mask id as text; it is never masked."""
        if self._masked is None:  # asked for several times a step
            self._masked = np.flatnonzero(self._canvas[self.start :] == self.mask_id) + self.start
        return self._masked.copy()  # the caller's own: torch warns of read-only arrays

    @property
    def generated(self) -> IntArray:
        return self.canvas[self.start :]

    @property
    def cost(self) -> Cost:
        return Cost(self.forward_rows, self.forward_tokens, self.head_rows, self.step)

    def uniforms(self, purpose: str, shape: int | tuple[int, ...], lane: int = 0) -> npt.NDArray[np.float64]:
        """Uniforms in [0, 1) for this row, step and purpose; `lane` tells apart draws made side by side."""
        return self.random.uniforms(purpose, self.step, shape, lane)

    def column_uniforms(self, purpose: str) -> npt.NDArray[np.float64]:
        """One uniform per generated column [new_tokens]: a column's draw does not depend on what else is open."""
        return self.uniforms(purpose, self.length - self.start)

    def edited(self, columns: IntArray, tokens: IntArray) -> IntArray:
        """A copy of the canvas with some cells filled."""
        canvas = self._canvas.copy()
        canvas[columns] = tokens
        return canvas

    def fill(self, columns: IntArray, tokens: IntArray) -> None:
        self._canvas[columns] = tokens
        self._masked = None
        self.visits[columns] += 1

    def give_back(self, columns: IntArray) -> None:
        self._canvas[columns] = self.mask_id
        self._masked = None

    def keep_only_current(self) -> None:
        """Drop hidden states of every canvas but the present one."""
        content = self._canvas.tobytes()
        view = self.kept.get(content)
        self.kept = {} if view is None else {content: view.compact()}

    def child(self, lane: int) -> Row:
        """An independent continuation with randomness of its own; caches are shared (they are immutable)."""
        other = copy.copy(self)
        other._own(self._canvas.copy())
        other.visits = self.visits.copy()
        other.ticks = dict(self.ticks)
        other.kept = dict(self.kept)
        other.state = copy.copy(self.state)
        other.forward_rows = other.forward_tokens = other.head_rows = 0
        other.random = self.random.fork(self.step, lane)
        return other
