"""Prompts are versioned, lengths are the paper's, and settings refuse what would leak or mislead."""

from __future__ import annotations

from typing import Any

import pytest
from wmbench_attacks.llm.config import LengthConfig, LlmConfig
from wmbench_attacks.llm.prompts import COMPRESS_DOCUMENT, COMPRESS_SENTENCE, PROMPTS, Band

from tests.attacks.helpers import GOLDEN
from wmbench.bench.plan import resolve_runs
from wmbench.config import load_config, validated
from wmbench.errors import ConfigError
from wmbench.host import Host

DIGESTS = {
    "rewrite-sentence/1": "3acc71dd56e0",
    "compress-sentence/1": "d23f35c259fa",
    "expand-sentence/1": "50992204e6d8",
    "rewrite-document/1": "2e89c2531ace",
    "compress-document/1": "8f155b095479",
    "expand-document/1": "2c8511ba4b0f",
    "translate/1": "9cddde60dd62",
    "round-trip/1": "277db0f110e1",
}
"""Results name prompts by version: whoever changes a word raises the version and adds a line."""


def test_a_prompt_changes_with_its_version_only() -> None:
    assert {f"{prompt.name}/{prompt.version}": prompt.digest[:12] for prompt in PROMPTS} == DIGESTS


def test_compression_bounds_are_the_published_ones() -> None:
    published = GOLDEN["compress_bounds"]
    found = {words: Band.of(int(words), 0.6, 0.7) for words in published}
    assert {words: [band.fewest, band.most] for words, band in found.items()} == published
    assert [Band(6, 7).miss(words) for words in (4, 6, 7, 9)] == [2, 0, 0, 2]


def test_a_request_holds_text_and_targets() -> None:
    text = "Ten words {of} text with {braces} are {not} placeholders here."
    system, user = COMPRESS_SENTENCE.messages(text, Band(6, 7))
    assert (system["role"], user["role"]) == ("system", "user")
    assert user["content"].endswith(f"\n\nSentence:\n{text}")
    assert "about 10 words" in user["content"]
    assert "at least 6 and at most 7 words" in user["content"]
    _, again = COMPRESS_DOCUMENT.messages(text, Band(6, 7), previous=12)
    assert "had 12 words" in again["content"]
    assert again["content"].endswith(f"\n\nText:\n{text}")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"api_key_env": "sk-secret-123"}, "NAME of an environment variable"),
        ({"base_url": "https://me:sk-secret-123@host/v1"}, "credentials"),
        ({"base_url": "https://host/v1?key=sk-secret-123"}, "credentials"),
        ({"base_url": "localhost:8000"}, "http"),
        ({"max_cost": 1.0}, "price_in and price_out"),
        ({"shortest": 0.9}, "larger than longest"),
        ({"workers": 0}, "workers"),
        ({"api_key": "sk-secret-123"}, "no setting 'api_key'"),
    ],
)
def test_bad_settings_are_refused_without_being_repeated(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        validated(LengthConfig, settings, "attack 'llm-compress'")
    assert "sk-secret" not in str(caught.value)


def test_how_to_work_is_no_part_of_a_result() -> None:
    """So a run goes on with a larger budget, more workers, another key or another cache."""
    how = {"max_calls": 5, "workers": 2, "api_key_env": "OTHER_KEY", "cache": "elsewhere.sqlite", "timeout": 5}
    options = {"schemes": ["none"], "attacks": [{"name": "llm-rewrite", "params": how}]}
    (plan,) = resolve_runs(load_config(options=options), Host.discover())
    assert plan.attacks[0].label == "llm-rewrite"
    assert set(plan.attacks[0].describe()["settings"]) == {"model", "base_url", "temperature", "attempts"}


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        _ = LlmConfig().api_key
    assert LlmConfig(api_key_env=None).api_key is None
