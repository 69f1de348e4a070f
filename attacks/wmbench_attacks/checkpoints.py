"""Where the checkpoint of an attack's model lies, found out before it is needed; and how it is loaded."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from wmbench.errors import ConfigError

_HINT = "name a directory with config.json, tokenizer.json and model.safetensors (docs/attacks.md)"


def located(source: str) -> str:
    """A local directory if there is one, else a hub id."""
    path = Path(source).expanduser()
    if path.is_dir():
        return str(path)
    if source.startswith((".", "/", "~")) or source.count("/") > 1:
        raise ConfigError(f"there is no directory {source!r}", hint=_HINT)
    return source


def require_checkpoint(source: str) -> None:
    """Fails when transformers is missing, or the checkpoint's configuration can be had neither here nor from the hub.
    The weights are left to the first use: they may have 45 GB."""
    if importlib.util.find_spec("transformers") is None:
        raise ConfigError(f"the model {source!r} needs the package transformers", hint="pip install 'wmbench[hf]'")
    from transformers.utils.hub import cached_file  # type: ignore[import-not-found,unused-ignore]

    place = Path(located(source))
    try:
        if place.is_dir():
            (place / "config.json").open("rb").close()
        else:
            cached_file(str(place), "config.json")
    except (OSError, ValueError) as error:
        raise ConfigError(f"the model {source!r} cannot be found", why=_first_line(error), hint=_HINT) from error


def load_whole(kind: str, source: str, what: str, dtype: str, tokenizer: str | None = None) -> tuple[Any, Any]:
    """Tokenizer and model, by an auto class of transformers. Only safetensors are read and no code of the checkpoint's
    is run. What a checkpoint lacks, transformers would make up at random, in every process anew: it is refused."""
    try:
        import transformers  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ConfigError(f"the {what} {source!r} needs transformers", hint="pip install 'wmbench[hf]'") from error
    try:
        words = transformers.AutoTokenizer.from_pretrained(located(tokenizer or source), trust_remote_code=False)
        model, report = getattr(transformers, kind).from_pretrained(
            located(source), use_safetensors=True, trust_remote_code=False, dtype=dtype, output_loading_info=True
        )
    except ConfigError:
        raise
    except Exception as error:  # transformers, safetensors, tokenizers and the hub each raise their own
        raise ConfigError(f"the {what} {source!r} cannot be loaded", why=_first_line(error), hint=_HINT) from error
    if missing := sorted(report["missing_keys"]):
        raise ConfigError(
            f"the {what} {source!r} is not whole",
            why=f"it has no {missing[0]!r}",
            hint="name a checkpoint that was saved with its head",
        )
    return words, model.eval()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
