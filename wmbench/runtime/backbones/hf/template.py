"""The chat template that a checkpoint ships, rendered in jinja's sandbox."""

from __future__ import annotations

from typing import Any

from wmbench.errors import ConfigError
from wmbench.runtime.backbones.hf.directory import NAMED_TOKENS, Checkpoint

_PLACE = "{prompt}"
_STAND_IN = "WMBENCH-PROMPT-STANDS-HERE"
_OTHERWISE = "use -B prompt=chat for the published layout, or --no-chat-template"


def shipped_layout(checkpoint: Checkpoint) -> str:
    """The template applied to one user turn, with `{prompt}` where its text goes."""
    template = checkpoint.chat_template
    if template is None:
        raise ConfigError(
            "the checkpoint ships no chat template",
            where=str(checkpoint.directory),
            why="neither chat_template.jinja nor chat_template in tokenizer_config.json",
            hint=_OTHERWISE,
        )
    try:
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError as error:
        raise ConfigError("shipped templates need the package jinja2", hint="pip install 'wmbench[hf]'") from error
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _refuse
    names = {f"{name}_token": _content(checkpoint.named_tokens.get(f"{name}_token")) for name in NAMED_TOKENS}
    try:
        text = environment.from_string(template).render(
            messages=[{"role": "user", "content": _STAND_IN}], add_generation_prompt=True, tools=None, **names
        )
    except Exception as error:  # whatever a template does
        raise ConfigError(
            "the shipped chat template fails",
            where=str(checkpoint.directory),
            why=f"{type(error).__name__}: {error}",
            hint=_OTHERWISE,
        ) from error
    if text.count(_STAND_IN) != 1:
        raise ConfigError(
            "the shipped chat template does not show the prompt once", where=str(checkpoint.directory), hint=_OTHERWISE
        )
    return text.replace(_STAND_IN, _PLACE)


def _content(entry: Any) -> str:
    found = entry.get("content") if isinstance(entry, dict) else entry
    return found if isinstance(found, str) else ""


def _refuse(message: str) -> None:
    raise ValueError(message)
