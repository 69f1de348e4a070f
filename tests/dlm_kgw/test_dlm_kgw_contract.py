"""DLM-KGW keeps the contract of a scheme: with a secret key, with the published constant, with other contexts."""

from __future__ import annotations

import wmbench_dlm_kgw

from wmbench.testing import SchemeContract

INFO = wmbench_dlm_kgw.register_schemes()[0]


class TestDlmKgw(SchemeContract):
    info = INFO
    settings = {"delta": 8.0}  # noqa: RUF012  at temperature 1 and 40 tokens; the papers have 0.5 and 300


class TestDlmKgwExact(SchemeContract):
    info = INFO
    settings = {"delta": 8.0, "p_value": "exact", "n_iter": 2}  # noqa: RUF012


class TestDlmKgwOfficial(SchemeContract):
    """The published colours use no key."""

    info = INFO
    settings = {"delta": 8.0, "prf": "official"}  # noqa: RUF012


class TestDlmKgwTwoContexts(SchemeContract):
    info = INFO
    settings = {"delta": 12.0, "convolution_kernel": (-2, -1), "seeding_scheme": "minhash"}  # noqa: RUF012
