"""Where the checkpoint of an attack's model lies, found out before it is needed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

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
        why = next(iter(str(error).splitlines()), type(error).__name__)
        raise ConfigError(f"the model {source!r} cannot be found", why=why, hint=_HINT) from error
