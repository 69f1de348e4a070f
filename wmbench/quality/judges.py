"""Judges of fluency: causal language models that give a text's log-perplexity as an answer to its prompt.

`mini-judge` is embedded and knows the language of the lab only. `hf:<folder or hub name>` is any causal model of
transformers. A judge that cannot judge is not an error: the figure is left out, and the reason stands in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from wmbench.errors import ConfigError
from wmbench.types import TextCodec

DEFAULT_JUDGE: Final = "mini-judge"
_HUB: Final = "hf:"


class TextJudge(Protocol):
    def log_perplexity(self, prompt: Sequence[str], texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """[n] mean negative log-likelihood (nats) per token; NaN for a text without a token."""


@dataclass(frozen=True)
class FoundJudge:
    """A judge that can judge, not loaded yet."""

    name: str
    identity: str
    """Changes when its verdicts may change."""
    load: Callable[[], TextJudge]


def find_judge(name: str, codec: TextCodec) -> FoundJudge | str:
    """The judge of this name for texts of this tokenizer, or why there is none."""
    require_judge(name)
    if name == DEFAULT_JUDGE:
        return _embedded(codec)
    folder = Path(name.removeprefix(_HUB)).expanduser()
    # Of what is on the hub only the name can be known without asking the hub.
    identity = _content(folder) if folder.is_dir() else name
    return FoundJudge(name, identity, lambda: _hub_judge(name.removeprefix(_HUB)))


def require_judge(name: str) -> None:
    """Refuse a name that is no judge's."""
    if name != DEFAULT_JUDGE and not (name.startswith(_HUB) and len(name) > len(_HUB)):
        raise ConfigError(
            f"there is no judge {name!r}", hint=f"name {DEFAULT_JUDGE} or hf:<folder or hub name>, or leave it out"
        )


def require_judge_folder(name: str) -> None:
    """Refuse a judge in a folder that does not exist; what is on the hub shows when it is loaded."""
    folder = name.removeprefix(_HUB)
    if folder.startswith((".", "/", "~")) and not Path(folder).expanduser().is_dir():
        raise ConfigError(
            f"there is no judge {name!r}", why=f"{folder} is not a folder", hint="check the path behind hf:"
        )


def _embedded(codec: TextCodec) -> FoundJudge | str:
    from wmbench.bench.derived import file_digest
    from wmbench.lab.codec import lab_codec, weights_folder
    from wmbench.lab.judge import WEIGHTS, Judge

    if codec.fingerprint != lab_codec().fingerprint:
        return (
            f"{DEFAULT_JUDGE} knows the language of the lab only, and this backbone writes another; name --judge hf:..."
        )
    weights = weights_folder() / WEIGHTS
    identity = file_digest(weights) if weights.is_file() else None  # type: ignore[arg-type]  # a Path once installed
    if identity is None:
        return f"the weights of {DEFAULT_JUDGE} are not installed"
    return FoundJudge(DEFAULT_JUDGE, identity, Judge)


def _content(folder: Path) -> str:
    """Of all files that a model in a folder is made of."""
    from wmbench.bench.derived import digest, source_digest
    from wmbench.semantics.hf_encoder import MODEL_FILES

    files = {path for pattern in MODEL_FILES for path in folder.glob(pattern) if path.is_file()}
    return digest([[path.name, source_digest(path)] for path in sorted(files)])


def _hub_judge(name: str) -> TextJudge:
    from wmbench.quality.causal import CausalJudge

    return CausalJudge(name)
