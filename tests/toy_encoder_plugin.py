"""A plugin file for `--plugin`: the encoder `toy`, for tests that run DenMark without a sentence encoder."""

from __future__ import annotations

from wmbench import hookimpl
from wmbench.testing.toys import ToyEncoder
from wmbench.types import EncoderInfo

TOY_DENMARK = ("encoder=toy", "dimension=16", "candidates=2", "rollouts=1", "scan_sizes=12..13")
"""Settings of DenMark under which a run takes seconds."""


def make(argument: str) -> ToyEncoder:
    return ToyEncoder()


@hookimpl
def register_encoders() -> list[EncoderInfo]:
    return [EncoderInfo("toy", "a bag of words", f"{__name__}:make", dimension=16)]
