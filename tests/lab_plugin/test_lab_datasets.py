"""Prompts and null texts: deterministic, of the promised length, and never what a model was trained on."""

from __future__ import annotations

import subprocess
import sys
import types
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from wmbench.errors import ConfigError, UnknownNameError
from wmbench.lab import datasets
from wmbench.lab.codec import lab_codec
from wmbench.lab.datasets import NULL_SEEDS, clean_samples, clean_texts, null_texts, prompts, tuning_prompts
from wmbench.lab.hub import hub_prompts
from wmbench.lab.language import DOMAINS, language
from wmbench.lab.training.corpus import HELD_OUT_SEEDS, TRAIN_SEEDS, documents
from wmbench.lab.training.judge import JUDGE_SEEDS
from wmbench.types import NullText


@pytest.fixture(scope="module")
def nulls() -> list[NullText]:
    return list(null_texts("", 1200))


# --- prompts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_domain_has_at_least_a_hundred_prompts(domain: str) -> None:
    samples = prompts(domain, None)
    assert len(samples) >= 100
    assert len({sample.prompt for sample in samples}) == len({sample.id for sample in samples}) == len(samples)
    assert all(language().topic(sample.prompt).domain == domain for sample in samples)


def test_a_short_run_already_meets_every_topic() -> None:
    assert len({sample.meta["topic"] for sample in prompts("howto", 20)}) == 20


def test_ids_do_not_depend_on_the_limit() -> None:
    assert prompts("finance", 300)[:7] == prompts("finance", 7)


def test_more_samples_than_prompts_are_numbered_repeats() -> None:
    once = prompts("explain", None)
    samples = prompts("explain", 2 * len(once) + 1)
    assert len({sample.id for sample in samples}) == len(samples)
    assert [sample.prompt for sample in samples[len(once) : 2 * len(once)]] == [sample.prompt for sample in once]
    assert samples[len(once)].id == once[0].id + "#2"
    assert samples[-1].id == once[0].id + "#3"
    assert [sample.index for sample in samples] == list(range(len(samples)))


def test_settings_are_chosen_on_prompts_that_a_hundred_answers_do_not_meet() -> None:
    measured = {sample.prompt for domain in DOMAINS for sample in prompts(domain, 100)}
    tuning = tuning_prompts("", None)
    assert len({sample.prompt for sample in tuning} - measured) == len(tuning) == 60
    assert [sample.meta["domain"] for sample in tuning_prompts("", 4)] == [*DOMAINS, DOMAINS[0]]


# --- null texts ------------------------------------------------------------------------------------------------


def test_null_lengths_are_uniform_after_retokenisation(nulls: list[NullText]) -> None:
    lengths = [len(ids) for ids in lab_codec().encode_batch([null.text for null in nulls])]
    assert min(lengths) >= 150
    assert max(lengths) <= 300
    sixths = Counter(min(5, (length - 150) * 6 // 151) for length in lengths)
    # 200 expected in each sixth, standard deviation 13
    assert all(150 <= sixths[part] <= 250 for part in range(6)), sixths


def test_null_texts_are_a_function_of_their_seed(nulls: list[NullText]) -> None:
    assert list(null_texts("", 30)) == nulls[:30]
    assert len({null.text for null in nulls}) == len({null.document for null in nulls}) == len(nulls)


def test_domains_take_turns_and_can_be_asked_for(nulls: list[NullText]) -> None:
    assert Counter(null.domain for null in nulls) == dict.fromkeys(DOMAINS, 400)
    for domain in DOMAINS:
        assert list(null_texts(domain, 10)) == [null for null in nulls if null.domain == domain][:10]
    with pytest.raises(UnknownNameError, match="did you mean 'finance'"):
        null_texts("finanse", 1)


def test_workers_change_nothing(nulls: list[NullText], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "CHUNK", 7)
    assert list(null_texts("", 20, workers=2)) == nulls[:20]


def test_a_script_without_a_guard_is_not_run_again_by_the_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text('from wmbench.lab.datasets import null_texts\nprint(len(list(null_texts("", 3, workers=2))))\n')
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert done.stdout == "3\n", done.stderr


def test_texts_are_disjoint_from_training_by_seed(nulls: list[NullText]) -> None:
    used = [NULL_SEEDS, TRAIN_SEEDS, HELD_OUT_SEEDS]
    assert not any(end in other for one in used for end in (one[0], one[-1]) for other in used if other is not one)
    assert JUDGE_SEEDS.start in TRAIN_SEEDS
    assert JUDGE_SEEDS.stop == TRAIN_SEEDS.stop
    trained = {text for _, text in documents(TRAIN_SEEDS[:200])}
    sentences = {sentence for text in trained for sentence in text.split(". ")}
    for null in nulls[:200]:
        assert not any(text.startswith(null.text) for text in trained)
        own = null.text.split(". ")[1:-1]
        assert sum(sentence in sentences for sentence in own) < len(own)


def test_too_many_nulls_are_refused() -> None:
    with pytest.raises(ConfigError, match="null texts were asked for"):
        null_texts("howto", 400_000_000)


def test_clean_samples_have_ids_of_their_own() -> None:
    samples = list(islice(clean_samples("mini"), 400))
    run_ids = {sample.id for domain in DOMAINS for sample in prompts(domain, None)}
    assert len({sample.id for sample in samples} | run_ids) == 400 + 360
    assert [sample.dataset for sample in samples[:3]] == list(DOMAINS)


def test_clean_texts_of_an_installed_backbone() -> None:
    texts = list(clean_texts("tiny", 4))
    assert [text.family for text in texts] == ["clean:tiny"] * 4
    assert {text.domain for text in texts} == set(DOMAINS)
    assert list(islice(clean_texts("tiny"), 2)) == texts[:2]
    with pytest.raises(UnknownNameError, match="unknown backbone"):
        next(clean_texts("tinny", 1))


# --- the hub ---------------------------------------------------------------------------------------------------


class FakeHub(types.ModuleType):
    """Stands in for the library `datasets`."""

    def load_dataset(self, name: str, *, split: str, streaming: bool) -> Iterator[dict[str, Any]]:
        assert streaming
        if name == "offline/offline":
            raise ConnectionError("cannot reach the hub\nand many more lines")
        if name == "owner/chats":
            return iter([{"prompt": [{"role": "user", "content": "How?"}]}])
        return iter([{"id": "7", "question": f"{split} {i}?" if i != 1 else " "} for i in range(5)])


@pytest.fixture
def _hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", FakeHub("datasets"))


@pytest.mark.usefixtures("_hub")
def test_hub_prompts() -> None:
    samples = hub_prompts("owner/name:test", 3)
    assert [(sample.id, sample.prompt) for sample in samples] == [
        (f"hf:owner/name:test:{i}", f"test {i}?") for i in (0, 2, 3)
    ]
    assert hub_prompts("owner/name:test:question", 3) == samples
    assert len(hub_prompts("owner/name", None)) == 4


@pytest.mark.usefixtures("_hub")
@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("offline/offline", "cannot be loaded\n  why: ConnectionError: cannot reach the hub\n  next step: .*jsonl:"),
        ("owner/name:test:answer", "no column 'answer'\n  why: its columns: id, question"),
        ("owner/chats", "column 'prompt' holds no text\n  why: it holds a list, as chats do"),
        ("owner/name:a:b:c", "cannot be read"),
    ],
)
def test_hub_errors_say_what_to_do(argument: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        hub_prompts(argument, 3)


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ConfigError, match=r"pip install 'wmbench\[datasets\]'"):
        hub_prompts("owner/name", 3)
