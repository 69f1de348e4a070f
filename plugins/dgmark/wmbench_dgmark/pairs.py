"""A statistic for texts in which the right parity turns round: where a word was added, deleted or tokenised otherwise.

Behind such a place every token stands one further: what fitted before fits no more, and the other way round. Two tokens
on the same side of all such places still agree, both fit or neither does, and near ones mostly are on the same side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def pair_scores(fitting: Sequence[Flags], decay: float) -> Floats:
    """z of each text [texts]: the sum over pairs of decay^distance, minus where the two disagree.

    Mean 0 and variance 1 for fair coins, at every length. Below two tokens there is no pair, and z is 0. One pass over
    the tokens, all texts together.
    """
    lengths = np.array([len(flags) for flags in fitting], dtype=np.int64)
    signs = np.zeros((len(fitting), lengths.max(initial=0)))  # 0 behind the end of a text
    for row, flags in zip(signs, fitting, strict=True):
        row[: len(flags)] = np.where(flags, 1.0, -1.0)
    agreement, before = np.zeros(len(fitting)), np.zeros(len(fitting))
    for sign in signs.T:  # before: the signs so far, each with decay^distance
        agreement += sign * before
        before = decay * (before + sign)
    q = decay**2  # the variance is the sum over distances d of (n - d) q^d
    variance = lengths * q / (1 - q) - q * (1 - q**lengths) / (1 - q) ** 2
    return agreement / np.sqrt(np.where(lengths > 1, variance, 1.0))
