"""Every scheme keeps its contract on the embedded model, in both its attention patterns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
import wmbench_block_best_of_k
import wmbench_denmark
import wmbench_dgmark
import wmbench_dlm_kgw
import wmbench_none
import wmbench_patternmark
import wmbench_pmark
import wmbench_semstamp
import wmbench_umr

from wmbench.runtime.backbone import Backbone
from wmbench.testing.on_mini import MiniContract
from wmbench.testing.toys import backbone_named

pytestmark = pytest.mark.slow

UNITS = {"unit_size": 8, "candidates": 4, "scan_sizes": (6, 8, 10)}


class OnMini(MiniContract):
    __test__ = False

    @pytest.fixture(params=["mini", "mini-full"])
    def backbone(self, request: pytest.FixtureRequest) -> Backbone:
        return backbone_named(request.param)

    def __init_subclass__(cls) -> None:
        cls.__test__ = True


class TestNone(OnMini):
    info = wmbench_none.register_schemes()[0]


class TestDenMark(OnMini):
    info = wmbench_denmark.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = {**UNITS, "rollouts": 2, "candidate_temperature": 1.0}


class TestDlmKgw(OnMini):
    info = wmbench_dlm_kgw.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = {"delta": 8.0}


class TestDgMark(OnMini):
    info = wmbench_dgmark.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = {"beam": 3, "candidate_top_k": 5}
    long = OnMini.long.model_copy(update={"tokens_per_step": 1})


class TestPatternMark(OnMini):
    info = wmbench_patternmark.register_schemes()[0]


class TestUmr(OnMini):
    info = wmbench_umr.register_schemes()[0]


class TestBlockBestOfK(OnMini):
    info = wmbench_block_best_of_k.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = UNITS


class TestPMark(OnMini):
    info = wmbench_pmark.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = UNITS


class TestSemStamp(OnMini):
    info = wmbench_semstamp.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = {**UNITS, "trials": 20}
