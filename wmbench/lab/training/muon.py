"""Muon: momentum whose matrix updates are orthogonalised, so that no direction of a weight matrix is left behind.

`torch.optim.Muon` iterates in bfloat16, which CPUs emulate slowly (ten seconds a step here); this one stays in float32.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

# Quintic Newton-Schulz: pushes all singular values into about 0.7 .. 1.2 within five steps.
_A, _B, _C = 3.4445, -4.7750, 2.0315


def orthogonalised(matrix: Tensor, steps: int = 5) -> Tensor:
    """The nearest (semi-)orthogonal matrix, roughly."""
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = wide / (wide.norm() + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    return x if wide is matrix else x.T


class Muon(torch.optim.Optimizer):
    """For weight matrices only. `lr` is on AdamW's scale: an update's root mean square is 0.2 lr."""

    def __init__(
        self, parameters: Iterable[nn.Parameter], lr: float, momentum: float = 0.95, weight_decay: float = 0.01
    ) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                velocity = self.state[parameter].setdefault("velocity", torch.zeros_like(parameter))
                velocity.lerp_(parameter.grad, 1 - group["momentum"])
                update = orthogonalised(parameter.grad.lerp(velocity, group["momentum"]))
                parameter.mul_(1 - group["lr"] * group["weight_decay"])
                parameter.add_(update, alpha=-0.2 * group["lr"] * max(parameter.shape) ** 0.5)
