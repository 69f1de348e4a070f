"""Settings of the LLM attacks. Those marked `exclude` say how to work, not what to compute: they are in no result, so
that a run can be resumed with a larger budget or another number of workers."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from wmbench.errors import ConfigError
from wmbench_attacks.config import AttackConfig

OPENAI = "https://api.openai.com/v1"


class LlmConfig(AttackConfig):
    """The endpoint and how it is used."""

    model: str = Field("gpt-4o-mini", min_length=1, description="Model, by the name the endpoint knows it by.")
    base_url: str = Field(OPENAI, description="OpenAI-compatible endpoint, usually ending in /v1.")
    temperature: float | None = Field(0.7, ge=0, le=2, description="Sampling temperature; null: the endpoint's own.")
    attempts: int = Field(7, ge=1, le=50, description="Answers asked for until one is usable and of the right length.")

    api_key_env: str | None = Field(
        "OPENAI_API_KEY",
        exclude=True,
        description="Environment variable that holds the API key; null: the endpoint needs none.",
    )
    workers: int = Field(8, ge=1, le=256, exclude=True, description="Calls under way at once.")
    timeout: float = Field(120.0, gt=0, exclude=True, description="Seconds to wait for an answer.")
    retries: int = Field(
        6, ge=0, le=20, exclude=True, description="Repeats of a call that was not answered, with growing pauses."
    )
    pause: float = Field(0.5, gt=0, exclude=True, description="Seconds before the first repeat; then twice as long.")
    max_calls: int | None = Field(
        None, ge=0, exclude=True, description="Calls that one command may make, over all its LLM attacks."
    )
    max_cost: float | None = Field(
        None, ge=0, exclude=True, description="What one command may spend, over all its LLM attacks; needs both prices."
    )
    price_in: float | None = Field(None, ge=0, exclude=True, description="Price of a million prompt tokens.")
    price_out: float | None = Field(None, ge=0, exclude=True, description="Price of a million answer tokens.")
    max_tokens: int | None = Field(
        None, ge=1, exclude=True, description="Longest answer; null: follows from the text. Doubled when it cuts one."
    )
    token_limit: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", exclude=True, description="What the endpoint calls that limit; reasoning models want the latter."
    )
    cache: Path | None = Field(
        None, exclude=True, description="File of the answers; null: wmbench/llm-answers.sqlite in the user's cache."
    )

    @property
    def source(self) -> str:
        """Who answers."""
        return f"{self.base_url} {self.model}"

    @property
    def cache_file(self) -> Path:
        if self.cache is not None:
            return self.cache.expanduser()
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return Path(base) / "wmbench" / "llm-answers.sqlite"

    @property
    def api_key(self) -> str | None:
        """Never a field, so it is in no dump."""
        if self.api_key_env is None:
            return None
        if key := os.environ.get(self.api_key_env, "").strip():
            return key
        raise ConfigError(
            "there is no API key for the LLM attacks",
            where=f"environment variable {self.api_key_env}",
            hint="put the endpoint's key there, name another variable with the setting api_key_env, "
            "or set it to null for an endpoint that needs none",
        )

    # Both checks are on the model, not on the field: an error about a field shows what was typed, and a common mistake
    # is to type the key itself.

    @model_validator(mode="after")
    def _names_a_key(self) -> Self:
        if self.api_key_env is not None and re.fullmatch(r"[A-Z_][A-Z0-9_]{0,39}", self.api_key_env) is None:
            raise ValueError("api_key_env is the NAME of an environment variable, in capitals; never the key itself")
        return self

    @model_validator(mode="after")
    def _is_a_plain_address(self) -> Self:
        parts = urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("base_url is not an http(s) address")
        if parts.username or parts.password or parts.query:
            raise ValueError("base_url holds credentials or a query; a key belongs into the environment (api_key_env)")
        return self

    @model_validator(mode="after")
    def _can_count_money(self) -> Self:
        if self.max_cost is not None and (self.price_in is None or self.price_out is None):
            raise ValueError("max_cost needs price_in and price_out (per million tokens)")
        return self


class LengthConfig(LlmConfig):
    """An attack that changes the length."""

    shortest: float = Field(0.6, gt=0, description="Fewest words of the result, as a share of the words before.")
    longest: float = Field(0.7, gt=0, description="Most words of the result, as a share of the words before.")
    off_length: Literal["closest", "fail"] = Field(
        "closest",
        description="When no attempt has the right length: take the closest and count it, or let the text fail.",
    )

    @model_validator(mode="after")
    def _is_a_band(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError("shortest is larger than longest")
        return self


class ExpandConfig(LengthConfig):
    shortest: float = Field(1.3, gt=0, description="Fewest words of the result, as a share of the words before.")
    longest: float = Field(1.5, gt=0, description="Most words of the result, as a share of the words before.")


class TranslateConfig(LlmConfig):
    """A round trip through another language."""

    pivot: str = Field("Chinese", min_length=1, description="Language of the way out, in English.")
    language: str = Field("English", min_length=1, description="Language of the text, in English.")
    trip: Literal["two calls", "one call"] = Field(
        "two calls",
        description="Two calls: the way back sees the translation alone. One call, as in the paper: both at once.",
    )
