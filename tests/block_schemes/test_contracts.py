"""The block-decoded semantic schemes keep the contract of every scheme, with a secret key and as published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import wmbench_block_best_of_k
import wmbench_pmark
import wmbench_semstamp

from wmbench.testing import SchemeContract

SMALL = {"unit_size": 5, "candidates": 4, "block_temperature": 1.0, "scan_sizes": (4, 5, 6)}
OFFICIAL = {**SMALL, "prf": "official"}


class TestBlockBestOfK(SchemeContract):
    info = wmbench_block_best_of_k.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = SMALL


class TestBlockBestOfKOfficial(SchemeContract):
    info = wmbench_block_best_of_k.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = {**OFFICIAL, "block_temperature": None}
    attentions = ("block",)


class TestPMark(SchemeContract):
    info = wmbench_pmark.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = SMALL


class TestPMarkOfficial(SchemeContract):
    info = wmbench_pmark.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = {**OFFICIAL, "median": "lower"}
    attentions = ("full",)


class TestSemStamp(SchemeContract):
    info = wmbench_semstamp.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = {**SMALL, "trials": 20}


class TestSemStampOfficial(SchemeContract):
    info = wmbench_semstamp.register_schemes()[0]
    settings: ClassVar[Mapping[str, Any]] = {**OFFICIAL, "bits": 3, "trials": 20, "scan_rule": "min_p"}
    attentions = ("full",)
