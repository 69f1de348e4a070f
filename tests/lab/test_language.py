"""The data of the lab language and the discipline of what is held out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wmbench.lab.check import check, data_mistakes, missed, unreached
from wmbench.lab.language import LENGTHS, Slot, language
from wmbench.lab.parse import parse
from wmbench.lab.sample import sample


@pytest.fixture(scope="module")
def report():
    return check(documents=10)


def test_the_language_meets_its_requirements(report) -> None:
    assert report.missed == []


def test_the_data_files_have_no_mistakes(report) -> None:
    assert report.complaints == []


def test_the_check_sees_what_is_wrong(report) -> None:
    lab = language()
    topic, group = next(iter(lab.topics.values())), next(iter(lab.classes.values()))
    alone = {**lab.classes, group.id: replace(group, members=group.members[:1])}
    assert f"class {group.id} has one member" in data_mistakes(replace(lab, classes=alone))
    thin = replace(report, propositions={**report.propositions, topic.id: 3})
    assert [line for line in missed(thin) if line.startswith(f"{topic.id} is too thin")]
    document = sample(topic.id, 0)
    said = {statement.proposition for statement in document.meaning.statements}
    unsaid = [line.partition(":")[0] for line in unreached(lab, {topic.id: [document] * 40})]
    assert unsaid == [item.id for item in topic.propositions if item.id not in said] != []


def test_about_a_fifth_is_held_out(report) -> None:
    assert 0.15 < report.held_out_frames < 0.25
    assert 0.15 < report.held_out_classes < 0.25


def test_every_length_of_every_proposition_keeps_an_open_frame() -> None:
    for topic in language().topics.values():
        for item in topic.propositions:
            assert all(item.open_frames[length] for length in LENGTHS), item.id


def test_documents_use_no_held_out_frame_and_no_held_out_member() -> None:
    lab = language()
    for number, topic in enumerate(lab.topics):
        for sentence in parse(sample(topic, number).text):
            assert sentence.reading is not None
            # Two frames may spell the same sentence; an open one must be among the readings, so compare the words.
            assert not sentence.reading.frame.held_out, sentence.text
            for group, member in sentence.reading.members:
                assert member in lab.classes[group].open_members, sentence.text


def test_every_slot_of_a_frame_can_be_filled() -> None:
    for topic in language().topics.values():
        for item in topic.propositions:
            for frame in item.frames:
                for part in frame.parts:
                    if isinstance(part, Slot):
                        assert part.group.members if part.group else item.values[part.name]


def test_an_unknown_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown lab prompt"):
        sample("How do I milk a unicorn?", 1)
