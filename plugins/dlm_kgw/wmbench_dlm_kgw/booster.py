"""What turns logits into boosted logits; there is one for a single context token and one for several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor

from wmbench_dlm_kgw.config import DlmKgwConfig
from wmbench_dlm_kgw.green import GreenMatrix
from wmbench_dlm_kgw.neighbourhood import Neighbourhood


@dataclass(frozen=True)
class Booster(ABC):
    """Boosts under one configuration and key."""

    config: DlmKgwConfig
    size: int
    """V: ids the tokenizer knows. Logits beyond are never boosted."""
    green: GreenMatrix

    @abstractmethod
    def boosted(self, cells: Neighbourhood, logits: Tensor, temperature: float) -> Tensor:
        """Logits [open, width] of the open cells, boosted, from those of the masked cells [masked, width]."""
