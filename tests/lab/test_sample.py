"""Documents: deterministic, sound English on the surface, and of the length that was asked for."""

from __future__ import annotations

import hashlib
import os
import statistics
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from wmbench.lab.language import Document, language
from wmbench.lab.parse import coverage, meaning_of, parse
from wmbench.lab.realise import mend, takes_an
from wmbench.lab.sample import sample

ROOT = Path(__file__).parents[2]
DIGEST = "import hashlib; from wmbench.lab.sample import sample; from wmbench.lab.language import language; \
print(hashlib.sha256('|'.join(sample(t, 7).text for t in language().topics).encode()).hexdigest())"


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    topics = list(language().topics)
    return [sample(topics[number % len(topics)], 100 + number) for number in range(180)]


def test_another_process_draws_the_same_documents() -> None:
    here = hashlib.sha256("|".join(sample(topic, 7).text for topic in language().topics).encode()).hexdigest()
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "PYTHONPATH": str(ROOT)}
    there = subprocess.run([sys.executable, "-c", DIGEST], env=environment, capture_output=True, text=True, check=True)
    assert there.stdout.strip() == here


def test_seed_and_prompt_both_matter() -> None:
    topic = next(iter(language().topics.values()))
    texts = {sample(prompt, seed).text for prompt in topic.prompts[:3] for seed in range(3)}
    assert len(texts) == 9


def test_no_slot_is_left_and_no_word_is_doubled(documents: list[Document]) -> None:
    for document in documents:
        assert not set("{}<>") & set(document.text)
        assert not mend(document.text.lower())[1], document.text
        assert not any(marks in document.text for marks in ("  ", " ,", ",,"))


def test_articles_fit_the_next_word(documents: list[Document]) -> None:
    for document in documents:
        words = document.text.split()
        for article, word in pairwise(words):
            if article.lower() in ("a", "an"):
                assert (article.lower() == "an") == takes_an(word), f"{article} {word}"


@pytest.mark.parametrize(
    ("word", "an"),
    [("hour", True), ("unit", False), ("one-time", False), ("honest", True), ("uninsured", True), ("house", False)],
)
def test_takes_an(word: str, an: bool) -> None:
    assert takes_an(word) is an


def test_every_sentence_is_capitalised(documents: list[Document]) -> None:
    for document in documents:
        assert all(part[:1].isupper() for part in document.text.split(". ")), document.text


def test_nothing_is_said_twice_and_a_conclusion_ends_the_document(documents: list[Document]) -> None:
    lab = language()
    for document in documents:
        said = [statement.proposition for statement in document.meaning.statements]
        assert len(set(said)) == len(said)
        kinds = {item.id: item.kind for item in lab.topics[document.meaning.topic].propositions}
        assert kinds[said[0]] == "claim"
        assert kinds[said[-1]] == "conclusion"


def test_topic_specific_share(documents: list[Document]) -> None:
    lab = language()
    own = [
        statistics.mean(
            not {item.id: item.shared for item in lab.topics[document.meaning.topic].propositions}[one.proposition]
            for one in document.meaning.statements
        )
        for document in documents
    ]
    assert 0.6 <= statistics.mean(own) <= 0.7


def test_about_a_third_of_the_sentences_has_an_opener(documents: list[Document]) -> None:
    parsed = [sentence for document in documents for sentence in parse(document.text)]
    assert 0.25 < statistics.mean(bool(sentence.opener) for sentence in parsed) < 0.42


def test_a_document_is_as_long_as_asked() -> None:
    for number, topic in enumerate(language().topics):
        target = 130 + 2 * number
        assert abs(len(sample(topic, number, target_words=target).text.split()) - target) <= 0.12 * target


def test_lengths_are_spread_over_the_range(documents: list[Document]) -> None:
    fifths = Counter(min(4, max(0, int((len(one.text.split()) * 1.15 - 150) // 30))) for one in documents)
    assert all(fifths[place] > 0.1 * len(documents) for place in range(5)), fifths


def test_documents_are_read_back_exactly(documents: list[Document]) -> None:
    for document in documents:
        assert meaning_of(parse(document.text)) == document.meaning


def test_coverage_of_documents(documents: list[Document]) -> None:
    shares = [coverage(document.text).sentences for document in documents[:60]]
    assert statistics.mean(shares) >= 0.99
