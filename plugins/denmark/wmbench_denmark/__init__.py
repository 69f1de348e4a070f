"""Scheme `denmark`: a semantic watermark for diffusion language models that looks ahead by rollouts (Ma et al.)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wmbench import hookimpl
from wmbench.published import (
    DREAM,
    ENCODER,
    LLADA,
    LLADA2,
    SCAN_SETTINGS,
    UNIT_EMBEDDING_SETTINGS,
    UNIT_EMBEDDINGS,
    blocks,
    on,
    origin,
)
from wmbench.types import SchemeInfo

_LAB_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    # The lab decodes in blocks of five and little in its sentences is open: many varied candidates, of which the weight
    # takes the unlikely ones only where they buy score. Chosen on 30 answers of `tuning` (docs/denmark.md).
    "mini": {"candidates": 64, "candidate_temperature": 1.0, "likelihood_weight": 0.009},
    # Full attention pays for every candidate with a whole canvas.
    "mini-full": {"unit_size": 18, "scan_sizes": "9..27", "candidates": 32, "candidate_temperature": 0.5},
}
PAPER_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    **on((*LLADA, *LLADA2), ENCODER, blocks()),
    **on(DREAM, ENCODER, origin()),
    **{name: {"position_scope": "block", "channels": 1, "rollouts": 6, **own} for name, own in _LAB_SETTINGS.items()},
}
"""What differs from the defaults of `DenMarkConfig`, which are the paper's."""

_DECODING_ONLY = frozenset(
    {
        "preset",
        "candidates",
        "positions_per_candidate",
        "position_policy",
        "position_scope",
        "same_positions",
        "candidate_temperature",
        "candidate_top_p",
        "rollout_temperature",
        "rollouts",
        "rollout_schedule",
        "common_random_numbers",
        "likely_fraction",
        "likelihood_weight",
        "prefilter",
        "stale_context",
    }
)
"""Settings that concern the texts and not the detector."""

SWEEPS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "candidate-temperature": {"candidate_temperature": [0.2, 0.4, 0.6, 0.8, 1.0]},
    "candidates": {"candidates": [4, 8, 16, 24, 32]},
    "rollouts": {"rollouts": [1, 2, 3, 5]},
    # Every size is scanned from a half to one and a half of it, as 25 is by default.
    "unit-size": {
        "unit_size,scan_sizes": [[10, "5..15"], [15, "7..22"], [25, "12..37"], [40, "20..60"], [50, "25..75"]]
    },
    "positions": {"positions_per_candidate": [1, 2, 4, 8]},
    "budgets": {"candidates,channels": [[8, 1], [16, 2], [24, 3], [32, 4]]},
    # Around the paper's units, whatever size the backbone's own settings have.
    "scan-range": {
        "unit_size,scan_sizes": [[25, r] for r in ("25..25", "23..27", "21..29", "17..33", "12..37", "10..40")]
    },
    "length": {"decoding.max_new_tokens": [100, 150, 200, 250, 300]},
    "position-policy": {"candidate_temperature": [0.2, 0.4, 0.6, 0.8], "position_policy": ["random", "low_confidence"]},
    # Not the paper's: what likelihood in the choice does to price and detection.
    "likelihood-weight": {"likelihood_weight": [0.0, 0.003, 0.006, 0.01, 0.02]},
    # Not the paper's: what the approximate options do to tokens and detection. The first point is exact.
    "prefilter": {"prefilter": [None, 8, 4, 2]},
    "stale-context": {"stale_context": [False, True]},
}
"""The sensitivity analyses of the paper. Where it gives no values, they surround its settings."""


@hookimpl
def register_schemes() -> list[SchemeInfo]:
    return [
        SchemeInfo(
            name="denmark",
            summary="steers the meaning of every unit of 25 tokens by rollout look-ahead; survives paraphrase",
            factory="wmbench_denmark.scheme:DenMark",
            config="wmbench_denmark.config:DenMarkConfig",
            alg_id="org.wmbench.denmark.1",
            key_use="secret",
            settings=PAPER_SETTINGS,
            decoding_only=_DECODING_ONLY,
            detection_only=SCAN_SETTINGS,
            feature_settings=UNIT_EMBEDDING_SETTINGS,
            feature_family=UNIT_EMBEDDINGS,
            approximate=frozenset({"prefilter", "stale_context"}),
            sweeps=SWEEPS,
        )
    ]


@hookimpl
def register_commands() -> list[tuple[str, str, str]]:
    return [
        ("analyse denmark-advantage", "wmbench_denmark.commands:advantage", "what each step adds to DenMark's score"),
        (
            "analyse denmark-noise",
            "wmbench_denmark.commands:noise",
            "what common random numbers do to DenMark's choice",
        ),
    ]
