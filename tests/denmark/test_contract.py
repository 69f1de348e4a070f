"""DenMark keeps the contract of every scheme, on tiny backbones with a toy encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import wmbench_denmark

from wmbench.testing import SchemeContract

SMALL = {"unit_size": 8, "candidates": 4, "rollouts": 2, "candidate_temperature": 1.0, "rollout_temperature": 1.0}


class TestDenMark(SchemeContract):
    info = wmbench_denmark.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = {**SMALL, "scan_sizes": (6, 8, 10)}
