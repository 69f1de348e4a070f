"""PatternMark keeps the contract of a scheme, with a secret key and with the published constant."""

from __future__ import annotations

import wmbench_patternmark

from wmbench.testing import SchemeContract

INFO = wmbench_patternmark.register_schemes()[0]


class TestPatternMark(SchemeContract):
    info = INFO


class TestPatternMarkExact(SchemeContract):
    info = INFO
    settings = {"p_value": "exact"}  # noqa: RUF012


class TestPatternMarkOfficial(SchemeContract):
    """The published partition uses no key."""

    info = INFO
    settings = {"prf": "official"}  # noqa: RUF012
