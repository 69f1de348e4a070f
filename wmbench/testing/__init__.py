"""For plugin authors: contract suites to subclass, toys to run them on, and pytest fixtures.

    from wmbench.testing import SchemeContract

    class TestMine(SchemeContract):
        info = my_package.register_schemes()[0]

pytest loads `wmbench.testing.plugin` at start-up in every project of the environment, so nothing here imports torch
until it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wmbench.testing.attacks import AttackContract
    from wmbench.testing.backbones import BackboneContract
    from wmbench.testing.encoders import EncoderContract
    from wmbench.testing.harness import run_scheme, score_texts
    from wmbench.testing.schemes import SchemeContract
    from wmbench.testing.toys import ToyEncoder, tiny_backbone, toy_key, toy_samples, toy_texts

__all__ = [
    "AttackContract",
    "BackboneContract",
    "EncoderContract",
    "SchemeContract",
    "ToyEncoder",
    "run_scheme",
    "score_texts",
    "tiny_backbone",
    "toy_key",
    "toy_samples",
    "toy_texts",
]

_HOME = {
    "AttackContract": "attacks",
    "BackboneContract": "backbones",
    "EncoderContract": "encoders",
    "SchemeContract": "schemes",
    "run_scheme": "harness",
    "score_texts": "harness",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME.get(name, 'toys')}"), name)
