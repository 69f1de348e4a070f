"""Mistakes in the data files: each is told with its file and place, and the rest is read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from wmbench.lab.loading import load, package_data

TOPIC = "topics/finance/car-loan.yaml"
CLASSES = "classes/finance_1.yaml"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A language of one topic."""
    for path in (TOPIC, CLASSES, "classes/common.yaml", "templates/finance.yaml", "connectives.yaml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(str(package_data())) / path, tmp_path / path)
    return tmp_path


def swap(root: Path, path: str, old: str, new: str) -> None:
    text = (root / path).read_text("utf-8")
    assert old in text
    (root / path).write_text(text.replace(old, new, 1), "utf-8")


def test_one_topic_is_a_language(root: Path) -> None:
    lab = load(root)
    assert list(lab.topics) == ["car-loan"]
    assert lab.problems == ()


@pytest.mark.parametrize(
    ("path", "old", "new", "complaint"),
    [
        (TOPIC, "kind: claim", "kind: clame", "proposition short-term: kind must be one of claim, reason"),
        (TOPIC, "  - id: short-term\n    kind", "  - kind", "proposition 0: id is missing"),
        (TOPIC, "    plain: [", "    plane: [", "plane is no known entry"),
        (
            TOPIC,
            "{pay_off} the",
            "{pay_of} the",
            "car-loan/short-term/short/0: unknown slot {pay_of}, perhaps {pay_off}",
        ),
        (TOPIC, "  people:", "  tools:", "car-loan.yaml, line 30: 'tools' stands in this file twice"),
        (TOPIC, "classes: finance_1", "classes: finance_9", "car-loan.yaml: there is no class file classes/finance_9"),
        (TOPIC, "domain: finance", "domain: howto", "car-loan.yaml: holds car-loan of howto"),
        (TOPIC, "topic: car-loan", "topic: [", "car-loan.yaml: while parsing"),
        (CLASSES, "often: [often,", "often: [often, often,", "class finance_1/often: a member stands there twice"),
        (CLASSES, "often: [often,", "often: [yes,", "class finance_1/often: members must be a list of words"),
        ("templates/finance.yaml", "kind: claim", "kind: clame", "templates/finance.yaml: proposition"),
        ("connectives.yaml", "  hedge:", "  hedges:", "look at hedge, hedges"),
    ],
)
def test_a_mistake_is_told_by_its_place(root: Path, path: str, old: str, new: str, complaint: str) -> None:
    swap(root, path, old, new)
    assert [line for line in load(root).problems if complaint in line]


def not_utf8(root: Path) -> None:
    (root / TOPIC).write_bytes(b"topic: caf\xe9\n")


def a_list(root: Path) -> None:
    (root / TOPIC).write_text("- topic\n")


def a_new_domain(root: Path) -> None:
    shutil.copytree(root / "topics/finance", root / "topics/sport")


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (not_utf8, f"{TOPIC}: 'utf-8' codec can't decode"),
        (a_list, f"{TOPIC} must be a mapping"),
        (a_new_domain, "topics/sport: belongs to none of the domains"),
    ],
)
def test_a_spoilt_file_is_told(root: Path, spoil: Callable[[Path], None], complaint: str) -> None:
    spoil(root)
    assert [line for line in load(root).problems if line.startswith(complaint)]
