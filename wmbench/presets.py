"""Named defaults of a run: `wmbench run --preset NAME` (docs/results.md)."""

from __future__ import annotations

from typing import Final

from wmbench.settings import Settings

DEFAULT_PRESET: Final = "quick"
_COMPARED: Final = ["none", "denmark", "dlm_kgw", "dgmark", "patternmark", "umr"]
# What differs from the paper's settings: answers of `mini` leave little to choose, so strengths are those that find at
# least 97% of the prompts of `tuning` for about one nat, and DGMark counts pairs of tokens, which outlive a parity that
# turns round (docs/baselines.md). DenMark and UMR run as they are.
_FOUND: Final[Settings] = {
    "dlm_kgw": {"delta": 4.5},
    "dgmark": {"candidate_top_k": 16, "statistic": "pairs"},
    "patternmark": {"delta": 3.6},
}
_LAB: Final[Settings] = {
    "schemes": [{"name": name, "params": _FOUND.get(name, {})} for name in _COMPARED],
    "datasets": ["finance", "howto", "explain"],
    "attacks": ["local"],
    "lengths": [50, 100, 150, 200, 300],
    "keys": 25,
}
PRESETS: Final[dict[str, Settings]] = {
    "quick": {
        "samples": 8,
        "attacks": ["few"],
        "calibration_texts": 5300,  # 26 sizes need 5,199 to decide 0.5%
        "heldout_texts": 1000,
        "lengths": [150, 200, 250, 300],  # shorter ones would need null texts of their own
    },
    "lab-mid": {**_LAB, "samples": 100, "calibration_texts": 6000, "heldout_texts": 4000, "attacked_nulls": 200},
    "lab-full": {
        **_LAB,
        "samples": 300,
        "calibration_texts": 30_000,
        "heldout_texts": 10_000,
        "attacked_nulls": 1000,
    },
    "paper": {
        "schemes": _COMPARED,
        "backbones": ["llada-8b", "llada-1.5", "llada2.0-mini", "dream-7b"],
        "datasets": ["finance_qa", "alpacafarm", "longform_qa"],
        "attacks": ["llm-rewrite", "llm-compress", "llm-expand", "llm-document-rewrite"],
        "nulls": ["c4"],
        "samples": 300,
        "calibration_texts": 30_000,
        "heldout_texts": 10_000,
        "filters": {"strict_repetition": True},
        "prf": "official",
    },
}
"""Partial configurations by name. A preset's values count as defaults: what the user says always wins."""
LONG_PRESETS: Final = frozenset({"lab-mid", "lab-full", "paper"})
"""Those whose time is estimated, and said, before they start."""
