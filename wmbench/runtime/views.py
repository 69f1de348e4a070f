"""What goes into a forward and what comes out: a canvas asked for, and the states of a stretch of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from wmbench.runtime.backbone import Prefix
from wmbench.runtime.row import Row
from wmbench.types import IntArray


@dataclass(frozen=True, slots=True)
class HiddenView:
    """States of columns start .. start + len(states) of one canvas."""

    start: int
    states: Tensor
    shift: int = 0

    @property
    def end(self) -> int:
        return self.start + len(self.states)

    def at(self, columns: IntArray) -> Tensor:
        """States [n, D] that predict the given columns."""
        index = np.maximum(columns - self.shift, 0) - self.start
        assert index.min() >= 0, "a view must begin before the columns it is asked for"
        assert index.max() < len(self.states), "a view must reach to the last of them (a GPU would end the process)"
        return self.states[torch.from_numpy(index).to(self.states.device)]

    def compact(self) -> HiddenView:
        """A copy that does not hold on to the batch it was computed in."""
        return HiddenView(self.start, self.states.clone(), self.shift)


@dataclass(frozen=True, slots=True)
class Request:
    """One canvas to be forwarded for a row, so that the states of begin .. end are among the result."""

    row: Row
    canvas: IntArray
    begin: int
    end: int
    is_base: bool = False
    """The row's present canvas: its finished blocks extend the prefix cache."""
    around: Prefix | None = None
    """Keys and values of all columns but begin .. end, which alone are computed then."""

    @property
    def keeps_all(self) -> bool:
        return self.is_base and self.row.keeps_surroundings
