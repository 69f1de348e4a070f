"""Marking: among the open positions, one whose candidate token has the parity of its place is filled first.

Token probabilities are never changed. With a beam, the best positions are filled for trial, and the one after which
most of the remaining candidates of the block fit is filled for good. All trials of all rows are one batched look-ahead,
and the winner's forward is the next step's base forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from wmbench import hookimpl
from wmbench.runtime.lookahead import Edit
from wmbench.runtime.sampling import confidence
from wmbench.runtime.step import Cells, Step
from wmbench.types import Commit, IntArray
from wmbench_dgmark.candidates import draw_candidates, uniforms_needed
from wmbench_dgmark.detect import DgMarkDetector
from wmbench_dgmark.parity import Bits, fits

Floats = npt.NDArray[np.float64]
_SAMPLED_TOGETHER = 2**20
"""Logits that are sampled in one call."""


class DgMark(DgMarkDetector):
    """The scheme: decoding here, detection inherited."""

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        bits = self.marking_bits
        cells = Cells.ragged([plan.scope for plan in step.plans])
        tokens, rewards = self._candidates(step, cells)
        fitting = fits(bits, tokens, cells.columns)
        if step.decoding.eos_last:
            ending = np.isin(tokens, list(step.engine.backbone.eos_ids))
            fitting, rewards = fitting & ~ending, np.where(ending, -np.inf, rewards)
        chosen: list[int] = []
        beams: list[IntArray] = []
        for r, plan in enumerate(step.plans):
            mine = np.flatnonzero(cells.rows == r)
            ranked = mine[np.lexsort((-rewards[mine], ~fitting[mine]))]  # those that fit first, then by reward
            if plan.budget > 1:
                chosen += ranked[: plan.budget].tolist()
            else:
                beams.append(ranked[: self._beam_width(int(fitting[mine].sum()), len(mine))])
        chosen += self._best_after_lookahead(step, cells, tokens, beams, bits)
        return Commit(cells.rows[chosen], cells.columns[chosen], tokens[chosen])

    def _beam_width(self, fitting: int, open_cells: int) -> int:
        if fitting:
            return min(fitting, self.config.beam)
        return min(open_cells, self.config.beam) if self.config.fallback == "look_ahead" else 1

    @property
    def _top_k(self) -> int | None:
        return self.config.candidate_top_k if self.config.candidates == "two_stage" else None

    def _candidates(self, step: Step, cells: Cells) -> tuple[IntArray, Floats]:
        """Candidate token and reward of every cell [n]; rewards do not know the temperature."""
        width = uniforms_needed(self._top_k)
        draws = [
            row.uniforms("dgmark candidate", (row.length - row.start, width))[plan.scope - row.start]
            for row, plan in zip(step.rows, step.plans, strict=True)
        ]
        logits = step.logits(cells)
        u = torch.from_numpy(np.concatenate(draws)).to(logits.device)
        tokens = draw_candidates(logits, u, step.decoding, self._top_k)
        rewards = confidence(self.config.reward, logits.double().softmax(-1), tokens)
        return tokens.cpu().numpy(), rewards.cpu().numpy()

    def _best_after_lookahead(
        self, step: Step, cells: Cells, tokens: IntArray, beams: Sequence[IntArray], bits: Bits
    ) -> list[int]:
        """The cell of each beam after which most other candidates of its row fit; the larger reward breaks ties."""
        trials = []
        for beam in beams:
            if len(beam) > 1:
                trials += [_Trial(step, cells, tokens, i, lane) for lane, i in enumerate(beam.tolist())]
        counts = self._fitting_after(step, trials, bits)
        # Beams are sorted by reward, and max takes the first of equals.
        return [max(beam.tolist(), key=lambda i: counts.get(i, 0)) for beam in beams]

    def _fitting_after(self, step: Step, trials: Sequence[_Trial], bits: Bits) -> dict[int, int]:
        """By the trial's cell: how many of the row's other open cells get a candidate that fits, under fresh noise."""
        counts: dict[int, int] = {}
        if not trials:
            return counts
        ahead = step.lookahead([trial.edit for trial in trials]).logits([trial.others for trial in trials])
        width, endings = uniforms_needed(self._top_k), list(step.engine.backbone.eos_ids)
        for members, logits in _joined(ahead):
            asked = [trials[t] for t in members]
            u = torch.from_numpy(np.concatenate([trial.uniforms(width) for trial in asked])).to(logits.device)
            drawn = draw_candidates(logits, u, step.decoding, self._top_k).cpu().numpy()
            useful = fits(bits, drawn, np.concatenate([trial.others for trial in asked])) & ~np.isin(drawn, endings)
            ends = np.cumsum([len(trial.others) for trial in asked])
            counts |= {trial.cell: int(part.sum()) for trial, part in zip(asked, np.split(useful, ends), strict=False)}
        return counts


class _Trial:
    """A cell filled for trial."""

    def __init__(self, step: Step, cells: Cells, tokens: IntArray, cell: int, lane: int) -> None:
        r, here = int(cells.rows[cell]), slice(cell, cell + 1)
        self.cell, self.lane, self.row = cell, lane, step.rows[r]
        self.edit = Edit(r, cells.columns[here], tokens[here])
        scope = step.plans[r].scope
        self.others = scope[scope != cells.columns[cell]]

    def uniforms(self, width: int) -> Floats:
        """Noise of its own [other cells, width]."""
        return self.row.uniforms("dgmark look-ahead", (len(self.others), width), self.lane)


def _joined(parts: Iterator[tuple[int, Tensor]]) -> Iterator[tuple[list[int], Tensor]]:
    """Neighbouring parts as one tensor: large enough for few calls, small enough for the processor's cache."""
    members: list[int] = []
    tensors: list[Tensor] = []
    for member, tensor in parts:
        if tensors and sum(t.numel() for t in tensors) + tensor.numel() > _SAMPLED_TOGETHER:
            yield members, torch.cat(tensors)
            members, tensors = [], []
        members.append(member)
        tensors.append(tensor)
    if tensors:
        yield members, torch.cat(tensors)
