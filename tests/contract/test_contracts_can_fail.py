"""Every test of every contract fails for somebody: a contract that cannot fail promises nothing."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace

import pytest
from broken_parts import BROKEN_ATTACKS, BROKEN_BACKBONES, BROKEN_ENCODERS
from toy_schemes import toy_info

from wmbench.errors import WmbenchError
from wmbench.runtime.engine import Engine
from wmbench.runtime.views import HiddenView, Request
from wmbench.testing import AttackContract, BackboneContract, EncoderContract, SchemeContract, tiny_backbone
from wmbench.types import Encoder

NOTICED = (AssertionError, WmbenchError, pytest.fail.Exception)

BROKEN_SCHEMES = {
    "test_is_deterministic": ["GlobalRandomness", "CountsItsSteps"],
    "test_depends_on_the_seed": ["IgnoresTheSeed"],
    "test_batch_size_does_not_matter": ["MeanOfTheBatch", "CountsItsSteps"],
    "test_restart_does_not_matter": ["HashOfAString"],
    "test_fills_every_mask_with_allowed_ids": ["EmitsTheMask", "AlwaysEos"],
    "test_stops_at_the_end_of_text": ["NothingAfterEos"],
    "test_key_decides_the_tokens": ["IgnoresItsKey"],
    "test_never_unmarked_in_silence": ["UnmarkedWithoutKey"],
    "test_marks_change_the_text": ["LeavesNoMark"],
    "test_prompt_is_never_scored": ["ScoresThePrompt"],
    "test_texts_do_not_influence_each_other": ["RanksInsideTheBatch"],
    "test_survives_hardly_any_text": ["DividesByLength"],
    "test_key_decides_the_scores": ["IgnoresItsKey", "Zeros", "DrawsItsScores"],
    "test_scoring_needs_the_key": ["ScoresWithoutKey"],
    "test_marked_texts_score_higher": ["SmallerMeansMarked", "Zeros", "LeavesNoMark"],
    "test_silent_on_clean_text": ["LikesTheModel"],
    "test_silent_under_wrong_keys": ["HalfOfTheMarkIsPublic"],
    "test_verdicts": ["PValueOfZero", "RanksByP"],
}


def contract_tests(contract: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(contract, inspect.isfunction) if name.startswith("test_")}


@pytest.mark.parametrize(
    ("contract", "broken"),
    [
        (SchemeContract, {*BROKEN_SCHEMES, "test_is_described"}),
        (AttackContract, {test for test, _ in BROKEN_ATTACKS} | {"test_is_described"}),
        (BackboneContract, {test for test, _ in BROKEN_BACKBONES} | {"test_counters_equal_what_the_model_saw"}),
        (EncoderContract, {test for test, _ in BROKEN_ENCODERS}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_contract_test_has_a_counterexample(contract: type, broken: set[str]) -> None:
    assert contract_tests(contract) == broken


@pytest.mark.parametrize(("test", "name"), [(test, name) for test, names in BROKEN_SCHEMES.items() for name in names])
def test_broken_scheme_is_noticed(test: str, name: str) -> None:
    contract = type("Broken", (SchemeContract,), {"info": toy_info(name, module="broken_schemes")})()
    method = getattr(contract, test)
    arguments = [tiny_backbone("full")] if inspect.signature(method).parameters else []
    with pytest.raises(NOTICED):
        method(*arguments)


def test_key_that_should_not_matter_is_noticed() -> None:
    contract = type("Broken", (SchemeContract,), {"info": toy_info("Bias", key_use="none")})()
    with pytest.raises(AssertionError, match="key_use"):
        contract.test_key_decides_the_tokens(tiny_backbone("full"))


@pytest.mark.parametrize(
    "change",
    [{"alg_id": ""}, {"summary": ""}, {"summary": "two\nlines"}, {"config": "broken_schemes:BareConfig"},
     {"config": "broken_schemes:Bias"}, {"config": "nowhere:Config"}],
    ids=str,
)  # fmt: skip
def test_bare_registration_is_noticed(change: dict[str, str]) -> None:
    contract = type("Broken", (SchemeContract,), {"info": replace(toy_info("Bias"), **change)})()
    with pytest.raises(NOTICED):
        contract.test_is_described()


@pytest.mark.parametrize(("test", "info"), BROKEN_ATTACKS, ids=lambda value: getattr(value, "name", value))
def test_broken_attack_is_noticed(test: str, info: object) -> None:
    contract = type("Broken", (AttackContract,), {"info": info})()
    with pytest.raises(NOTICED):
        getattr(contract, test)()


@pytest.mark.parametrize("change", [{"summary": ""}, {"preserves": ""}, {"strength": "rate"}], ids=str)
def test_bare_attack_is_noticed(change: dict[str, str]) -> None:
    contract = type("Broken", (AttackContract,), {"info": replace(BROKEN_ATTACKS[0][1], **change)})()
    with pytest.raises(AssertionError):
        contract.test_is_described()


@pytest.mark.parametrize(("test", "make"), BROKEN_BACKBONES, ids=lambda value: getattr(value, "__name__", value))
def test_broken_backbone_is_noticed(test: str, make: type) -> None:
    contract = type("Broken", (BackboneContract,), {"make_backbone": lambda self: make()})()
    with pytest.raises(NOTICED):
        getattr(contract, test)()


@pytest.mark.parametrize(("test", "make"), BROKEN_ENCODERS, ids=lambda value: getattr(value, "__name__", value))
def test_broken_encoder_is_noticed(test: str, make: type[Encoder]) -> None:
    contract = type("Broken", (EncoderContract,), {"make_encoder": lambda self: make()})()
    with pytest.raises(NOTICED):
        getattr(contract, test)()


def test_wrong_counters_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting is the engine's work, so here the engine is broken: it forgets the rows of every forward."""
    forward = Engine.forward

    def forgetful(self: Engine, requests: Sequence[Request]) -> list[HiddenView]:
        views = forward(self, requests)
        self.counters.forward_rows -= len(requests)
        return views

    monkeypatch.setattr(Engine, "forward", forgetful)
    contract = type("Counted", (BackboneContract,), {"make_backbone": lambda self: tiny_backbone()})()
    with pytest.raises(AssertionError):
        contract.test_counters_equal_what_the_model_saw()


def test_a_failed_restart_says_why_before_its_traceback() -> None:
    """This scheme is called one without a secret, and so is handed no key in the other process."""
    contract = type("Broken", (SchemeContract,), {"info": toy_info("Bias", key_use="fixed")})()
    with pytest.raises(AssertionError, match=r"^ConfigError: .*key"):
        contract.test_restart_does_not_matter()
