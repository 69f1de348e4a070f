"""The lab's tokenizer without its model: null texts and detection need no torch."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from wmbench.errors import ConfigError
from wmbench.runtime.codec import TokenizerCodec

MASK, END, PAD, USER, ANSWER = "<|mask|>", "<|end|>", "<|pad|>", "<|user|>", "<|answer|>"
PROMPT_LAYOUT = USER + "{prompt}" + ANSWER


def weights_folder() -> Traversable:
    """Where tokenizer, weights and model cards lie, in a checkout as in an installed wheel."""
    return files("wmbench.lab") / "weights"


def lab_codec(config: object = None) -> TokenizerCodec:
    """The tokenizer of `mini`, `mini-full` and `mini-judge`. All settings share it, so `config` is not looked at."""
    return _codec()


@lru_cache(maxsize=1)
def _codec() -> TokenizerCodec:
    path = weights_folder() / "tokenizer.json"
    if not path.is_file():
        raise ConfigError("the lab's tokenizer is not installed", where=str(path), hint="reinstall wmbench")
    return TokenizerCodec(path.read_text(encoding="utf-8"), PROMPT_LAYOUT)
