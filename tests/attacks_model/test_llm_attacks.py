"""What the LLM attacks do to texts, against a real endpoint."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from wmbench_attacks.llm.cache import Answer
from wmbench_attacks.llm.prompts import Band
from wmbench_attacks.llm.rewriter import Unusable, unquoted, usable_text
from wmbench_attacks.rewriting import pieces_of
from wmbench_attacks.sentences import split_sentences

from tests.attacks_model.conftest import CANARY, needs_openai
from tests.attacks_model.helpers import attacked_texts, info_of, run_attack
from tests.attacks_model.server import Endpoint
from wmbench.testing import AttackContract
from wmbench.testing.attacks import HARD_TEXTS

pytestmark = needs_openai

ALL = ["llm-rewrite", "llm-compress", "llm-expand", "llm-translate"]
DOCUMENT = [f"llm-document-{name}" for name in ("rewrite", "compress", "expand", "translate")]


def words(text: str) -> int:
    return len(text.split())


def sentences(text: str) -> list[str]:
    return [piece.text for piece in pieces_of(text, "sentence") if piece.has_words]


@pytest.mark.parametrize("name", [*ALL, *DOCUMENT])
def test_every_text_is_changed(name: str, llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]) -> None:
    new = attacked_texts(run_attack(name, llm, lab_texts))
    assert all(old.split() != text.split() for old, text in zip(lab_texts, new, strict=True))
    assert endpoint.keys == {CANARY}
    asked_for_whole_texts = [any(prompt.endswith(text) for prompt in endpoint.prompts) for text in lab_texts]
    assert asked_for_whole_texts == [name in DOCUMENT] * len(lab_texts)


@pytest.mark.parametrize(
    ("name", "low", "high"), [("llm-document-compress", 0.6, 0.7), ("llm-document-expand", 1.3, 1.5)]
)
def test_documents_get_the_length_asked_for(
    name: str, low: float, high: float, llm: dict[str, Any], lab_texts: list[str]
) -> None:
    for old, new in zip(lab_texts, attacked_texts(run_attack(name, llm, lab_texts)), strict=True):
        assert Band.of(words(old), low, high).miss(words(new)) == 0


def test_sentences_get_their_length_one_by_one(llm: dict[str, Any], lab_texts: list[str]) -> None:
    (result,) = run_attack("llm-compress", llm, lab_texts[:1])
    allowed = [Band.of(words(sentence), 0.6, 0.7) for sentence in sentences(lab_texts[0])]
    total = words(result.text or "")
    assert sum(band.fewest for band in allowed) <= total <= sum(band.most for band in allowed)
    assert result.details["off_length"] == 0


def test_other_lengths_are_a_setting(llm: dict[str, Any], lab_texts: list[str]) -> None:
    (new,) = attacked_texts(
        run_attack("llm-document-compress", {**llm, "shortest": 0.3, "longest": 0.35}, lab_texts[:1])
    )
    assert 0.3 <= words(new) / words(lab_texts[0]) <= 0.35


def test_paragraphs_and_rules_stay(llm: dict[str, Any], lab_texts: list[str]) -> None:
    one, two = (" ".join(sentences(text)[:2]) for text in lab_texts[:2])
    (new,) = attacked_texts(run_attack("llm-rewrite", llm, [f"  {one}\n\n***\n\n{two}\n"]))
    head, rule, tail = new.split("\n\n")
    assert rule == "***"
    assert head.startswith("  ")
    assert tail.endswith("\n")
    assert "\n" not in head


@pytest.mark.parametrize("text", [*HARD_TEXTS.values(), "One. Two!\n\n\n  Three (four). \n"])
def test_splitting_loses_nothing(text: str) -> None:
    assert "".join(part + gap for paragraph in split_sentences(text) for part, gap in paragraph) == text


def test_a_round_trip_goes_through_the_pivot(llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]) -> None:
    attacked_texts(run_attack("llm-document-translate", {**llm, "pivot": "Portuguese"}, lab_texts[:1]))
    there, back = endpoint.prompts
    assert "from English into Portuguese" in there
    assert "from Portuguese into English" in back
    assert lab_texts[0] not in back, "the way back sees the translation alone"


def test_a_round_trip_in_one_call(llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]) -> None:
    new = attacked_texts(run_attack("llm-translate", {**llm, "trip": "one call"}, lab_texts[:1]))
    assert len(endpoint.prompts) == len(sentences(lab_texts[0]))
    assert '"back"' not in new[0]
    assert "JSON" in endpoint.prompts[0]


def test_equal_sentences_are_asked_for_once(llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]) -> None:
    sentence = sentences(lab_texts[0])[0]
    first, second = attacked_texts(run_attack("llm-rewrite", llm, [f"{sentence} {sentence}", sentence]))
    assert len(endpoint.prompts) == 1
    assert first == f"{second} {second}"


def test_another_seed_asks_again(llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]) -> None:
    for seed in (0, 1, 0):
        run_attack("llm-document-rewrite", llm, lab_texts[:1], seed)
    assert len(endpoint.prompts) == 2


def test_results_say_how_they_were_made(llm: dict[str, Any], lab_texts: list[str]) -> None:
    (result,) = run_attack("llm-compress", llm, lab_texts[:1])
    details = dict(result.details)
    assert details["model"] == "gpt-4o-mini"
    assert details["prompts"][0].startswith("compress-sentence/1:")
    assert details["pieces"] == details["answers"] == len(sentences(lab_texts[0]))
    assert details["tokens_out"] > 0
    assert json.dumps(details)


def test_a_text_that_cannot_be_changed_fails(llm: dict[str, Any], endpoint: Endpoint) -> None:
    for text in ("", " \n ", "***", "\ud800 lone surrogate"):
        (result,) = run_attack("llm-rewrite", llm, [text])
        assert result.text is None
        assert "nothing to rewrite" in (result.error or "")
    assert endpoint.prompts == []


class LlmContract(AttackContract):
    extra: ClassVar[dict[str, Any]] = {}

    @pytest.fixture(autouse=True)
    def _lead_to_the_endpoint(self, llm: dict[str, Any]) -> None:
        self.settings = {**llm, **self.extra}  # type: ignore[misc]


class TestCompressSentences(LlmContract):
    info = info_of("llm-compress")


class TestTranslateDocument(LlmContract):
    info = info_of("llm-document-translate")
    extra: ClassVar[dict[str, Any]] = {"trip": "one call"}


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("<think>\nHm, shorter?\n</think>\n\nA sentence.", "A sentence."),
        ("Hm, shorter?\n</think>\n\nA sentence.", "A sentence."),  # the template has opened it
        ("A sentence about <think> and more.", "A sentence about <think> and more."),
        ("<think> Hm, and it never ends", None),
    ],
)
def test_what_a_model_thinks_is_no_part_of_its_answer(said: str, text: str | None) -> None:
    answer = Answer(said, "stop", 1, 1)
    if text is None:
        with pytest.raises(Unusable, match="empty"):
            usable_text(answer)
    else:
        assert usable_text(answer) == text


@pytest.mark.parametrize(
    ("answer", "text", "expected"),
    [
        ('"A new sentence."', "An old sentence.", "A new sentence."),
        ("“A new sentence.”", "An old sentence.", "A new sentence."),
        ('"A quotation."', '"An old quotation."', '"A quotation."'),
        ('"Yes," he said, "no."', "He said yes and no.", '"Yes," he said, "no."'),
        ('""', "x", '""'),
    ],
)
def test_quotation_marks_around_an_answer_go(answer: str, text: str, expected: str) -> None:
    assert unquoted(answer, text) == expected
