"""Two runs against each other: differences on the prompts they share, with paired bootstrap intervals.

Pairing is what makes a difference sharp: a hard prompt is hard for both schemes, and a null text that looks marked to
one often does to the other. So prompts are resampled as pairs, and null texts too when both runs have the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from pydantic import Field

from wmbench.detection import auc, bootstrap, tpr_at_fpr
from wmbench.errors import ConfigError
from wmbench.report.document import TARGETS, Part, Rate
from wmbench.report.folders import RunFolder, set_name
from wmbench.report.notes import null_label

Floats = npt.NDArray[np.float64]
_SEED: Final = 0
_RESAMPLES: Final = 1000


class Difference(Part):
    """One figure of both runs under one attack."""

    attack: str
    metric: str
    """`auc`, or `tpr` at a false-positive rate: `tpr 0.01 threshold`, `tpr 0.01 split`."""
    n: int
    """Prompts with a text in both runs."""
    first: float | None
    second: float | None
    difference: Rate | None
    """First minus second; null where one of them cannot decide the level."""

    @property
    def verdict(self) -> str:
        if self.difference is None:
            return "n/a"
        if self.difference.low > 0:
            return "first is better"
        return "second is better" if self.difference.high < 0 else "no clear difference"


class Comparison(Part):
    """What `wmbench compare --json` prints."""

    first: str
    second: str
    flags: list[str] = Field(default_factory=list)
    """What the two runs do not share."""
    differences: list[Difference]


def compare(first: RunFolder, second: RunFolder, *, different_nulls: bool = False) -> Comparison:
    """All figures under all attacks that both runs have. Different null sets are refused unless they are allowed."""
    flags = list(_flags(first, second))
    same_nulls = first.metrics["calibration"]["nulls"] == second.metrics["calibration"]["nulls"]
    if not same_nulls:
        labels = [null_label(run.metrics["calibration"]["nulls"]) for run in (first, second)]
        why = f"{labels[0]} against {labels[1]}"
        if not different_nulls:
            raise ConfigError(
                "the two runs stand on different null sets",
                why=why,
                hint="run both with the same --nulls and sizes, or flag the result with --different-nulls",
            )
        flags.insert(0, f"different null sets, resampled apart: {why}")
    attacks = [cell["attack"] for cell in first.metrics["cells"]]
    shared = [attack for attack in attacks if attack in {cell["attack"] for cell in second.metrics["cells"]}]
    found = [item for attack in shared for item in _under(attack, first, second, same_nulls)]
    if not found:
        raise ConfigError(
            "the two runs share no attack with texts of the same prompts", hint="run both on the same --dataset"
        )
    return Comparison(first=first.path.name, second=second.path.name, flags=flags, differences=found)


def _flags(first: RunFolder, second: RunFolder) -> list[str]:
    before, after = first.run.get("spec", {}), second.run.get("spec", {})
    names = {"backbone": "models", "codec": "tokenizers", "decoding": "decoding settings", "key_id": "keys"}
    return [f"different {words}" for name, words in names.items() if before.get(name) != after.get(name)]


def _under(attack: str, first: RunFolder, second: RunFolder, same_nulls: bool) -> list[Difference]:
    runs = (first, second)
    verdicts = [run.verdicts(set_name(attack)) for run in runs]
    same_prompt = {i for i, prompt in first.prompts.items() if second.prompts.get(i) == prompt}
    shared = [i for i in verdicts[0] if i in verdicts[1] and i in same_prompt]
    if not shared:
        return []
    positives = np.array([[v[i]["score"] for v in verdicts] for i in shared])  # [prompts, 2]
    p_values = np.array([[v[i]["p"] for v in verdicts] for i in shared])
    negatives = _negatives(runs, same_nulls)
    found = [_difference(attack, "auc", auc, positives, negatives)]
    for target in TARGETS:
        rate = float(target)
        blind = any(target in run.metrics.get("unresolved", {}) for run in runs)

        def tpr(pos: Floats, neg: Floats, rate: float = rate) -> float:
            return tpr_at_fpr(pos, neg, rate)

        def share(hits: Floats) -> float:
            return float(np.mean(hits))

        for name, metric, rows, nulls in (
            (f"tpr {target} threshold", tpr, positives, negatives),
            (f"tpr {target} split", share, (p_values <= rate).astype(np.float64), []),
        ):
            if blind:
                found.append(
                    Difference(attack=attack, metric=name, n=len(shared), first=None, second=None, difference=None)
                )
            else:
                found.append(_difference(attack, name, metric, rows, nulls))
    return found


def _negatives(runs: tuple[RunFolder, RunFolder], same: bool) -> list[Floats]:
    """Held-out null scores: one array of pairs, or two arrays that are resampled apart."""
    verdicts = [run.verdicts(run.heldout) for run in runs]
    if same and list(verdicts[0]) == list(verdicts[1]):
        return [np.array([[v[i]["score"] for v in verdicts] for i in verdicts[0]])]
    return [np.array([record["score"] for record in v.values()]) for v in verdicts]


def _difference(
    attack: str, name: str, metric: Callable[..., float], positives: Floats, negatives: list[Floats]
) -> Difference:
    def sides(pairs: Floats, *nulls: Floats) -> tuple[float, float]:
        columns = [nulls[0][:, side] if len(nulls) == 1 else nulls[side] for side in (0, 1)] if nulls else []
        return metric(pairs[:, 0], *columns[:1]), metric(pairs[:, 1], *columns[1:])

    def minus(*samples: Any) -> float:
        first, second = sides(*samples)
        return first - second

    first, second = sides(positives, *negatives)
    found = bootstrap(minus, positives, *negatives, seed=_SEED, resamples=_RESAMPLES)
    rate = Rate(estimate=found.estimate, low=found.low, high=found.high, n=found.n, method=f"paired {found.method}")
    return Difference(attack=attack, metric=name, n=len(positives), first=first, second=second, difference=rate)
