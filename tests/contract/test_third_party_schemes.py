"""The contract can be kept: one third-party scheme for each verb of a step."""

from __future__ import annotations

from toy_schemes import toy_info

from wmbench.testing import SchemeContract


class TestBias(SchemeContract):
    info = toy_info("Bias")


class TestReplace(SchemeContract):
    info = toy_info("Replace")


class TestLookAhead(SchemeContract):
    info = toy_info("LookAhead")


class TestBestOfN(SchemeContract):
    info = toy_info("BestOfN")


class TestRemask(SchemeContract):
    info = toy_info("Remask")
