"""The position policies: which columns of a plan compete, and which of them are filled once their tokens are known.

Some policies choose before any logits are read (`choose_blindly`): what is not chosen then costs nothing. The others
let the whole scope compete and rank it by confidence.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
from torch import Tensor

from wmbench.runtime.row import Row
from wmbench.runtime.sampling import confidence, tempered
from wmbench.runtime.schedule import Plan
from wmbench.runtime.settings import Decoding
from wmbench.types import IntArray

Floats = npt.NDArray[np.float64]


def choose_blindly(decoding: Decoding) -> bool:
    """True when no logits are needed to say which positions are filled."""
    if decoding.schedule == "threshold":
        return False
    return decoding.schedule == "origin" or decoding.positions in ("random", "left_to_right")


def open_columns(row: Row, plan: Plan, decoding: Decoding) -> IntArray:
    """The columns that compete: those chosen, or the whole scope where confidence will choose."""
    if plan.positions is not None:
        return plan.positions
    if not choose_blindly(decoding):
        return plan.scope
    if decoding.positions == "left_to_right":
        return plan.scope[: plan.budget]
    return _first_by_draw(row, plan.scope, plan.budget)


def widened(row: Row, plan: Plan, extra: int) -> Plan:
    """The plan with more columns to fill; where the schedule drew the positions itself, more are drawn."""
    budget = min(len(plan.scope), plan.budget + extra)
    if plan.positions is None:
        return replace(plan, budget=budget, extra=plan.extra + extra)
    others = np.setdiff1d(plan.scope, plan.positions)
    more = _first_by_draw(row, others, budget - len(plan.positions))
    return replace(plan, budget=budget, positions=np.union1d(plan.positions, more))


def confidences(logits: Tensor, tokens: Tensor, decoding: Decoding) -> Floats:
    """How sure the model is of the tokens [n] drawn from logits [n, V]."""
    if decoding.tempered_confidence:  # greedy tokens are ranked by the filtered distribution, too
        probabilities = tempered(logits, decoding.temperature or 1.0, decoding.top_k, decoding.top_p)
    else:
        probabilities = logits.double().softmax(-1)
    kind = decoding.positions if decoding.positions in ("margin", "entropy") else "probability"
    return confidence(kind, probabilities, tokens).cpu().numpy()


def most_confident(row: Row, plan: Plan, columns: IntArray, ranking: Floats, decoding: Decoding) -> IntArray:
    """Indices, ascending, of the competing columns that are filled, by the ranking [n] of each."""
    budget = plan.budget
    if plan.threshold is not None:
        budget = max(budget, int((ranking > plan.threshold).sum()) + plan.extra)
    if decoding.position_temperature > 0:
        # Gumbel top-k: drawn without replacement in proportion to exp(confidence / temperature)
        u = _draws(row, columns)
        ranking = ranking / decoding.position_temperature - np.log(-np.log(np.maximum(u, 1e-300)))
    return np.sort(np.argsort(-ranking, kind="stable")[:budget])


def _first_by_draw(row: Row, columns: IntArray, count: int) -> IntArray:
    """`count` of the columns with the largest draws, ascending: uniform without replacement."""
    if count >= len(columns):
        return columns
    best: IntArray = columns[np.argsort(-_draws(row, columns), kind="stable")[:count]]
    return np.sort(best)


def _draws(row: Row, columns: IntArray) -> Floats:
    """A column's draw does not depend on what else competes."""
    draws: Floats = row.column_uniforms("position")[columns - row.start]
    return draws
