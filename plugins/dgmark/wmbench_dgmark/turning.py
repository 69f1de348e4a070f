"""A statistic for texts in which the right parity turns round: where a word was added, deleted or tokenised otherwise.

Behind such a place every token stands one further, so what fitted before fits no more, and the other way round. The
text is read as a chain of two states, upright and turned, that changes sides with a small chance behind every token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def turning_scores(fitting: Sequence[Flags], fit_rate: float, turn_rate: float) -> Floats:
    """Log-likelihood ratio of each text, marked against unmarked [texts]; 0 for an empty text.

    In a marked text tokens have the parity of their state with chance `fit_rate`, in an unmarked one with 1/2. Which
    state the text begins in is not known. One pass over the tokens, all texts together.
    """
    upright = np.ones((len(fitting), max(map(len, fitting), default=0)))  # likelihood ratios; padding says nothing
    for ratios, flags in zip(upright, fitting, strict=True):
        ratios[: len(flags)] = np.where(flags, 2 * fit_rate, 2 * (1 - fit_rate))
    scores, belief = np.zeros(len(fitting)), np.full(len(fitting), 0.5)  # belief: that the text is upright here
    for ratio in upright.T:
        as_upright, as_turned = belief * ratio, (1 - belief) * (2 - ratio)
        evidence = as_upright + as_turned
        scores += np.log(evidence)
        belief = as_upright / evidence
        belief += turn_rate * (1 - 2 * belief)
    return scores
