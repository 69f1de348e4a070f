"""The lab's attack keeps the meaning, changes the words, and lands in its length bands."""

from __future__ import annotations

import statistics

import pytest

from wmbench.lab.language import Document, Meaning, Statement, language
from wmbench.lab.paraphrase import MODES, Mode, Paraphrase, paraphrase
from wmbench.lab.parse import coverage, parse
from wmbench.lab.realise import mend
from wmbench.lab.sample import sample
from wmbench.lab.wording import pairs, survival

Results = dict[Mode, list[Paraphrase]]


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    topics = list(language().topics)
    return [sample(topics[number % len(topics)], 300 + number) for number in range(60)]


@pytest.fixture(scope="module")
def results(documents: list[Document]) -> Results:
    return {mode: [paraphrase(document.text, mode, 5) for document in documents] for mode in MODES}


def said(meaning: Meaning) -> list[Statement]:
    return sorted(meaning.statements, key=repr)


@pytest.mark.parametrize("mode", MODES)
def test_the_meaning_stays(mode: Mode, documents: list[Document], results: Results) -> None:
    for document, result in zip(documents, results[mode], strict=True):
        assert result.meaning_before == document.meaning
        assert said(result.meaning_after) == said(document.meaning)
        if mode != "document":
            assert result.meaning_after.statements == document.meaning.statements


@pytest.mark.parametrize(
    ("mode", "low", "high"),
    [("rewrite", 0.9, 1.1), ("document", 0.9, 1.1), ("compress", 0.6, 0.7), ("expand", 1.3, 1.5)],
)
def test_length_bands(mode: Mode, low: float, high: float, documents: list[Document], results: Results) -> None:
    ratios = [
        len(result.text.split()) / len(document.text.split())
        for document, result in zip(documents, results[mode], strict=True)
    ]
    assert sum(low <= ratio <= high for ratio in ratios) >= 0.9 * len(ratios), sorted(ratios)


@pytest.mark.parametrize("held_out", ["with", "without"])
@pytest.mark.parametrize("mode", ["rewrite", "document"])
def test_few_word_pairs_survive(mode: Mode, held_out: str, documents: list[Document]) -> None:
    shares = [
        survival(pairs(document.text), paraphrase(document.text, mode, 9, held_out=held_out).text)  # type: ignore[arg-type]
        for document in documents[:20]
    ]
    assert statistics.mean(shares) <= 0.35


@pytest.mark.parametrize("mode", MODES)
def test_no_word_is_doubled(mode: Mode, results: Results) -> None:
    for result in results[mode]:
        assert not mend(result.text.lower())[1], result.text
        assert not set("{}<>") & set(result.text)


def test_document_moves_sentences(documents: list[Document], results: Results) -> None:
    moved = [
        result.meaning_after.statements != document.meaning.statements
        for document, result in zip(documents, results["document"], strict=True)
    ]
    assert statistics.mean(moved) > 0.9


def test_held_out_material_is_used_only_where_allowed(documents: list[Document]) -> None:
    lab = language()
    frames = {"with": 0, "without": 0, "only": 0}
    for document in documents[:15]:
        for policy in frames:
            text = paraphrase(document.text, "rewrite", 3, held_out=policy).text  # type: ignore[arg-type]
            for sentence in parse(text):
                assert sentence.reading is not None
                frames[policy] += sentence.reading.frame.held_out
                if policy == "without":
                    assert all(one in lab.classes[group].open_members for group, one in sentence.reading.members)
    assert frames["without"] == 0
    assert min(frames["with"], frames["only"]) > 0


def test_openers_are_not_held_out_so_they_stay_where_only_held_out_words_change(documents: list[Document]) -> None:
    openers = []
    for document in documents[:10]:
        text = paraphrase(document.text, "rewrite", 3, held_out="only").text
        for old, new in zip(parse(document.text), parse(text), strict=True):
            assert new.opener == old.opener
            openers.append(old.opener)
    assert any(openers)


def test_it_is_deterministic_and_the_seed_matters(documents: list[Document]) -> None:
    text = documents[0].text
    assert paraphrase(text, "rewrite", 1).text == paraphrase(text, "rewrite", 1).text
    assert paraphrase(text, "rewrite", 1).text != paraphrase(text, "rewrite", 2).text


def test_slightly_wrong_sentences_are_still_recognised(documents: list[Document]) -> None:
    words = documents[3].text.split()
    # What a small model does: a word missing here, a word doubled there.
    broken = " ".join(word for place, word in enumerate(words) if place % 23 != 11)
    found = coverage(broken)
    assert found.sentences < 0.7
    assert found.fragments > 0.85
    result = paraphrase(broken, "rewrite", 1)
    assert len(result.meaning_before.statements) >= 0.7 * len(documents[3].meaning.statements)


def test_content_phrases_are_known_and_said_again_in_sentences_that_are_not() -> None:
    topic = "clean-an-oven"
    document = " ".join(sample(topic, seed).text for seed in range(2))
    broken = "Zebras yodel beside an old toothbrush and a plastic scraper."
    alone = coverage(broken)
    assert alone.phrases == pytest.approx(6 / 10)  # the two tools; the rest is no lab language
    other = paraphrase(f"{document} {broken}", "rewrite", 1).text.rsplit(". ", 1)[1]
    assert other == "Zebras yodel beside a used toothbrush and a flat scraper made of plastic."
    # Outside of its topic a phrase is known, too, but nobody knows what it stands for.
    assert paraphrase(broken, "rewrite", 1).text == broken
    held_out_words_only = paraphrase(f"{document} {broken}", "rewrite", 1, held_out="only").text
    assert held_out_words_only.endswith(broken)


def test_foreign_text_stays_as_it_is() -> None:
    text = "Quantum chromodynamics confines quarks. Zebras yodel, gnus tango!"
    result = paraphrase(text, "rewrite", 1)
    assert result.text == text
    assert result.meaning_before.statements == ()
    assert paraphrase("", "rewrite", 1).text == ""
    assert paraphrase("\ud800 yodels.", "rewrite", 1).text == "\ud800 yodels."


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown paraphrase mode"):
        paraphrase("A text.", "translate", 1)  # type: ignore[arg-type]
