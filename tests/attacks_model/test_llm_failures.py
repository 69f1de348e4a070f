"""Endpoints that are slow, busy, broken or dead; budgets; and never a second payment for the same answer."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wmbench_attacks.llm.budget import Ledger
from wmbench_attacks.llm.cache import AnswerCache
from wmbench_attacks.llm.config import LlmConfig

from tests.attacks_model.conftest import CANARY, needs_openai
from tests.attacks_model.helpers import attacked_texts, run_attack
from tests.attacks_model.server import Endpoint, Fault
from wmbench.errors import ConfigError, IntegrityError, WmbenchError
from wmbench.types import Attacked

pytestmark = needs_openai

WHOLE, SENTENCES = "llm-document-rewrite", "llm-rewrite"


def paid_once(endpoint: Endpoint) -> bool:
    return len(set(endpoint.answered)) == len(endpoint.answered)


def sole(results: list[Attacked]) -> Attacked:
    (result,) = results
    return result


@pytest.mark.parametrize("fault", ["429", "500", "garbage", "hollow", "drop", "echo"])
def test_a_passing_failure_is_repeated(
    fault: Fault, llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    endpoint.faults.extend([fault, fault])
    attacked_texts(run_attack(WHOLE, llm, lab_texts[:1]))
    assert (len(endpoint.prompts), len(endpoint.answered)) == (3, 1)


def test_a_senseless_pause_is_replaced_by_our_own(
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`Retry-After: nan` would mean: at once."""
    pauses: list[float] = []
    monkeypatch.setattr("wmbench_attacks.llm.endpoint.Endpoint._pause", lambda _, seconds: pauses.append(seconds))
    endpoint.faults.extend(["busy", "429"])
    attacked_texts(run_attack(WHOLE, {**llm, "pause": 0.25}, lab_texts[:1]))
    assert pauses == [0.25, 0.01]


@pytest.mark.parametrize("fault", ["cut", "empty", "refused"])
def test_an_unusable_answer_is_asked_for_again(
    fault: Fault, llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    endpoint.faults.extend([fault, fault])
    result = sole(run_attack(WHOLE, llm, lab_texts[:1]))
    assert (result.error, result.details["answers"]) == (None, 3)
    # The two bad answers were paid for: they are played back, not asked for again.
    assert sole(run_attack(WHOLE, llm, lab_texts[:1])) == result
    assert len(endpoint.prompts) == 3


def test_a_slow_answer_is_given_up_and_asked_for_again(
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    endpoint.faults.append("slow")
    attacked_texts(run_attack(WHOLE, {**llm, "timeout": 3.0}, lab_texts[:1]))
    assert len(endpoint.prompts) > len(endpoint.answered)


def test_an_answer_counts_without_its_number_of_tokens(
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    """It may have cost as much as the longest answer."""
    endpoint.faults.append("uncounted")
    result = sole(run_attack(WHOLE, {**llm, "max_tokens": 500}, lab_texts[:1]))
    assert (result.error, len(endpoint.prompts)) == (None, 1)
    assert result.details["tokens_out"] == 500


def test_no_more_calls_are_under_way_than_there_are_workers(
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    meeting = threading.Barrier(3)
    under_way: list[int] = []
    seen: list[int] = []

    def on_request(number: int) -> None:
        """Before the answer, so a call that is counted here is surely not over for the client."""
        under_way.append(number)
        seen.append(len(under_way))
        if number <= 3:
            meeting.wait(timeout=60)  # so three do meet
        time.sleep(0.05)  # and others would come in meanwhile
        under_way.remove(number)

    endpoint.on_request = on_request
    attacked_texts(run_attack(SENTENCES, {**llm, "workers": 3}, lab_texts))
    assert max(seen) == 3
    assert len(seen) > 3


def test_truncation_by_the_token_limit_doubles_it(
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    length = len(lab_texts[0].split())
    result = sole(run_attack(WHOLE, {**llm, "max_tokens": length // 3}, lab_texts[:1]))
    assert len(attacked_texts([result])[0].split()) > length // 2
    assert result.details["answers"] == 3


@pytest.mark.parametrize("fault", ["cut", "empty", "refused"])
def test_a_text_without_a_usable_answer_fails_alone(
    fault: Fault, llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    endpoint.faults.extend([fault] * 3)
    settings = {**llm, "workers": 1, "attempts": 3}
    bad, good = run_attack(WHOLE, settings, lab_texts[:2])
    assert bad.text is None, "never the original in its place"
    assert "(3 answers)" in (bad.error or "")
    assert good.text is not None
    assert run_attack(WHOLE, settings, lab_texts[:2]) == [bad, good]
    assert len(endpoint.prompts) == 4, "the failure is played back, too"
    attacked_texts(run_attack(WHOLE, {**settings, "attempts": 4}, lab_texts[:2]))
    assert len(endpoint.prompts) == 5, "one attempt more is one call more"


def test_malformed_json_of_the_model(llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]) -> None:
    endpoint.faults.append("long")  # words behind the closing brace
    result = sole(run_attack("llm-document-translate", {**llm, "trip": "one call"}, lab_texts[:1]))
    assert result.details["answers"] == 2
    assert "and so on" not in attacked_texts([result])[0]


def test_a_wrong_length_is_asked_for_again_with_the_count(
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    endpoint.faults.append("long")
    result = sole(run_attack("llm-document-compress", llm, lab_texts[:1]))
    assert (result.details["answers"], result.details["off_length"]) == (2, 0)
    assert "Your last version had" not in endpoint.prompts[0]
    assert "Your last version had" in endpoint.prompts[1]


def test_no_right_length_takes_the_closest_or_fails(
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    endpoint.faults.extend(["long"] * 2)
    settings = {**llm, "attempts": 2}
    result = sole(run_attack("llm-document-compress", settings, lab_texts[:1]))
    assert result.details["off_length"] == 1
    assert (result.text or "").endswith("and so on")
    strict = sole(run_attack("llm-document-compress", {**settings, "off_length": "fail"}, lab_texts[:1]))
    assert strict.text is None
    assert "words (2 answers)" in (strict.error or "")
    assert len(endpoint.prompts) == 2


# --- what ends the run -------------------------------------------------------------------------------------------


def test_a_dead_endpoint_ends_the_run_and_is_resumed(
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    endpoint.dies_after = 5
    with pytest.raises(WmbenchError, match="does not answer") as caught:
        run_attack(SENTENCES, {**llm, "retries": 1}, lab_texts)
    assert caught.value.exit_code == 1
    assert "not paid for twice" in str(caught.value)
    assert len(endpoint.answered) >= 5
    endpoint.stop()
    with pytest.raises(WmbenchError, match="no connection"):
        run_attack(SENTENCES, {**llm, "retries": 1}, lab_texts)
    endpoint.start()
    first = attacked_texts(run_attack(SENTENCES, llm, lab_texts))
    assert paid_once(endpoint)
    asked = len(endpoint.prompts)
    assert attacked_texts(run_attack(SENTENCES, llm, lab_texts)) == first
    assert len(endpoint.prompts) == asked


def test_a_request_that_is_refused_fails_one_text(
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    """The endpoint has answered before, so it is this text that it dislikes."""
    attacked_texts(run_attack(WHOLE, llm, lab_texts[1:2]))
    endpoint.faults.append("400")
    result = sole(run_attack(WHOLE, llm, lab_texts[:1]))
    assert result.text is None
    assert "HTTP 400" in (result.error or "")
    assert CANARY not in str(result)


@pytest.mark.parametrize(
    ("settings", "faults", "message"),
    [
        ({}, ["401"], "refuses the API key"),
        ({"model": "no-such-model"}, [], "does not know the address or the model 'no-such-model'"),
        ({}, ["400"], "refuses the request"),
    ],
)
def test_what_no_repeat_can_mend_is_a_configuration_error(
    settings: dict[str, Any], faults: list[Fault], message: str,
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str],
) -> None:  # fmt: skip
    endpoint.faults.extend(faults)
    with pytest.raises(ConfigError, match=message) as caught:
        run_attack(WHOLE, {**llm, **settings}, lab_texts[:1])
    assert CANARY not in str(caught.value)
    assert len(endpoint.prompts) == 1


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Tests that run in the background are born deaf to Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_keeps_what_was_paid_for(llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]) -> None:
    endpoint.on_request = lambda number: os.kill(os.getpid(), signal.SIGINT) if number == 4 else None
    with pytest.raises(KeyboardInterrupt):
        run_attack(SENTENCES, llm, lab_texts)
    assert 4 <= len(endpoint.answered) < 4 + 2 * llm["workers"], "calls under way are finished, no other is begun"
    attacked_texts(run_attack(SENTENCES, llm, lab_texts))
    assert paid_once(endpoint)


def test_a_foreign_cache_file_is_named(llm: dict[str, Any], lab_texts: list[str]) -> None:
    Path(llm["cache"]).write_text("not a database, " * 100)
    with pytest.raises(IntegrityError, match="cannot be used"):
        run_attack(WHOLE, llm, lab_texts[:1])


# --- budgets -----------------------------------------------------------------------------------------------------


def test_the_budget_of_calls_is_kept_and_extended(
    llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]
) -> None:
    with pytest.raises(WmbenchError, match="used up") as caught:
        run_attack(SENTENCES, {**llm, "max_calls": 3}, lab_texts[:1])
    assert "max_calls = 3" in str(caught.value)
    assert len(endpoint.prompts) == 3
    with pytest.raises(WmbenchError, match="budget"):  # of the command, not of each attack in it
        run_attack(WHOLE, {**llm, "max_calls": 3}, lab_texts[:1])
    assert len(endpoint.prompts) == 3
    attacked_texts(run_attack(SENTENCES, {**llm, "max_calls": 1000}, lab_texts[:1]))
    assert paid_once(endpoint)


def test_repeats_count_against_the_budget(llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]) -> None:
    endpoint.faults.extend(["500"] * 9)
    with pytest.raises(WmbenchError, match="budget"):
        run_attack(WHOLE, {**llm, "max_calls": 2}, lab_texts[:1])
    assert len(endpoint.prompts) == 2


def test_the_budget_of_money_is_never_exceeded(llm: dict[str, Any], endpoint: Endpoint, lab_texts: list[str]) -> None:
    settings = {**llm, "price_in": 1.0, "price_out": 4.0, "max_cost": 0.004}
    with pytest.raises(WmbenchError, match="budget"):
        run_attack(SENTENCES, settings, lab_texts)
    with AnswerCache(Path(llm["cache"])) as cache:
        _, cost = Ledger(cache, LlmConfig(**settings)).totals()
    assert 0.002 < cost <= 0.004, "calls under way turn out cheaper than reserved, so most of it is used"
    assert endpoint.answered


def test_a_call_that_is_not_answered_costs_nothing(tmp_path: Path) -> None:
    config = LlmConfig(price_in=1e6, price_out=1e6, max_cost=10.0)
    with AnswerCache(tmp_path / "answers.sqlite") as cache:
        ledger = Ledger(cache, config)
        with pytest.raises(RuntimeError), ledger.call(4, 6):
            raise RuntimeError("no answer")
        with ledger.call(4, 6) as charge:
            charge(1, 2)
        assert ledger.totals() == (2, 3.0)
        with pytest.raises(WmbenchError, match="max_cost = 10"), ledger.call(4, 6):
            pass


def _call_once(file: Path) -> None:
    with AnswerCache(file) as cache, Ledger(cache, LlmConfig(max_calls=1)).call(1, 1):
        pass


def test_the_budget_holds_over_all_processes_of_a_command(tmp_path: Path) -> None:
    file = tmp_path / "answers.sqlite"
    worker = multiprocessing.get_context("spawn").Process(target=_call_once, args=(file,))
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    with pytest.raises(WmbenchError, match="1 calls"):
        _call_once(file)
    with AnswerCache(file) as cache, cache.transaction() as database:
        database.execute("UPDATE spending SET command = 'another'")
    _call_once(file)  # another command's spending does not count
