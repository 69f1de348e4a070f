"""The pytest plugin of wmbench: fixtures for everyone who tests a scheme, an attack or a backbone.

tiny_full_backbone    random transformer with full attention
tiny_block_backbone   random transformer with block-causal attention and a prefix cache
secret_key            a fixed key
null_texts            200 texts nobody watermarked, in the words of the tiny backbones
run_scheme            `run_scheme(scheme, backbone, samples, decoding)` -> generations in the order of the samples
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from wmbench.keys import SecretKey
    from wmbench.runtime.backbone import Backbone
    from wmbench.types import Generation

# The contract suites live outside the test files, where pytest would leave their asserts without explanation.
pytest.register_assert_rewrite(
    *(f"wmbench.testing.{name}" for name in ("attacks", "backbones", "encoders", "on_mini", "schemes", "scoring"))
)


@pytest.fixture(scope="session")
def tiny_full_backbone() -> Backbone:
    from wmbench.testing.toys import tiny_backbone

    return tiny_backbone("full")


@pytest.fixture(scope="session")
def tiny_block_backbone() -> Backbone:
    from wmbench.testing.toys import tiny_backbone

    return tiny_backbone("block")


@pytest.fixture(scope="session")
def secret_key() -> SecretKey:
    from wmbench.testing.toys import toy_key

    return toy_key("fixture")


@pytest.fixture(scope="session")
def null_texts() -> list[str]:
    from wmbench.testing.toys import toy_texts

    return toy_texts([40] * 200)


@pytest.fixture(scope="session")
def run_scheme() -> Callable[..., list[Generation]]:
    from wmbench.testing.harness import run_scheme

    return run_scheme
