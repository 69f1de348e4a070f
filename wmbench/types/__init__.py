"""Frozen records that cross hook borders. Import them from here: where they are defined may change.

Nothing here imports torch: discovery and detection must work without it. Arrays are numpy; model-sized tensors
(logits, hidden states) live in `wmbench.runtime` and never cross a process border.
"""

from __future__ import annotations

from wmbench.types.arrays import AnyArray, FloatArray, IntArray
from wmbench.types.attacks import AttackContext, Attacked, AttackFunction, AttackInput
from wmbench.types.detection import Evidence, Features, NullText, TextContext, Verdict, Views
from wmbench.types.generation import Commit, Cost, Generation, Sample
from wmbench.types.registration import (
    AttackInfo,
    BackboneEntry,
    CostClass,
    DatasetInfo,
    EncoderInfo,
    KeyUse,
    Product,
    Registered,
    SchemeInfo,
)
from wmbench.types.services import Encoder, SchemeContext, TextCodec

__all__ = [
    "AnyArray",
    "AttackContext",
    "AttackFunction",
    "AttackInfo",
    "AttackInput",
    "Attacked",
    "BackboneEntry",
    "Commit",
    "Cost",
    "CostClass",
    "DatasetInfo",
    "Encoder",
    "EncoderInfo",
    "Evidence",
    "Features",
    "FloatArray",
    "Generation",
    "IntArray",
    "KeyUse",
    "NullText",
    "Product",
    "Registered",
    "Sample",
    "SchemeContext",
    "SchemeInfo",
    "TextCodec",
    "TextContext",
    "Verdict",
    "Views",
]
