"""Finding the mark: how often tokens have the parity of their place. Imports no torch.

The detector does not know where the answer began, hence not which parity is right. All z change their sign together, so
their squares do not depend on it.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from wmbench import hookimpl
from wmbench.keys import SecretKey
from wmbench.types import Evidence, Features, SchemeContext, TextContext, Verdict, Views
from wmbench_dgmark.config import DgMarkConfig
from wmbench_dgmark.pairs import pair_scores
from wmbench_dgmark.parity import Bits, fits, token_bits

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def global_z(fitting: Flags) -> float:
    """(matches - n/2) / sqrt(n/4), 0 for an empty text."""
    n = len(fitting)
    return (int(fitting.sum()) - n / 2) / math.sqrt(n / 4) if n else 0.0


def window_z(fitting: Flags, window: int) -> Floats:
    """z of every window of `window` tokens, at stride 1, by cumulative sums; none if the text is shorter."""
    sums = np.concatenate([[0], np.cumsum(fitting)])
    return ((sums[window:] - sums[:-window]) / window - 0.5) / math.sqrt(0.25 / window)


def windowed_score(fitting: Flags, window: int) -> float:
    """Mean squared z of the windows: 1 on average without a mark, 0 if there is no window."""
    z = window_z(fitting, window)
    return float(np.mean(z**2)) if len(z) else 0.0


class DgMarkDetector:
    """Scores of texts. `official` needs no key and ignores one."""

    def __init__(self, config: DgMarkConfig, context: SchemeContext) -> None:
        self.config = config
        self._key = context.key
        self._size = context.codec.size

    @cached_property
    def marking_bits(self) -> Bits:
        """f(v) under the key the scheme was built with; raises when it needs one and has none."""
        return token_bits(self.config.prf, self._key, self._size)

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        bits, config = token_bits(self.config.prf, key, self._size), self.config
        view: str = config.statistic
        # The first token is taken for column 0; with another start all z would only change their sign.
        fitting = [fits(bits, ids, np.arange(len(ids))) for ids in map(features.of, range(len(features)))]
        if view == "pairs":
            scores = pair_scores(fitting, config.decay)
        elif view == "global":
            scores = np.array([abs(global_z(flags)) for flags in fitting])
        else:
            scores = np.array([windowed_score(flags, config.window) for flags in fitting])
        evidence = None
        if context.evidence:
            evidence = tuple({view: _windows(flags, config.window)} for flags in fitting)
        return Views((view,), scores.astype(np.float64).reshape(-1, 1), evidence)

    @hookimpl
    def detect(self, views: Views, context: TextContext) -> list[Verdict] | None:
        """The normal law when it is asked for; otherwise None, and the host's empirical verdict counts."""
        if self.config.p_value == "empirical":
            return None
        verdicts = []
        for i, z in enumerate(views.scores[:, 0].tolist()):
            p = max(2.0 * float(ndtr(-z)), 1e-300)
            evidence = views.evidence[i][views.names[0]] if views.evidence is not None else ()
            verdicts.append(
                Verdict(p, z, p <= context.alpha, context.alpha, views.names[0], "two-sided normal law", evidence)
            )
        return verdicts


def _windows(fitting: Flags, window: int) -> tuple[Evidence, ...]:
    """Side by side windows; a window speaks for the mark when its squared z exceeds 1, the mean without a mark."""
    z = window_z(fitting, window)[::window]
    return tuple(
        Evidence(s * window, (s + 1) * window, value**2 - 1, f"z = {value:+.2f}") for s, value in enumerate(z.tolist())
    )
