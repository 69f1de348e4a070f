"""Plans of non-uniform length: golden vectors, and the lab's rewriters under them."""

from __future__ import annotations

import pytest
from wmbench_attacks import plans
from wmbench_attacks.sentences import sentences_of

from tests.attacks.helpers import GOLDEN, attack, attack_all
from tests.store.helpers import builder, resolve
from wmbench.bench.attacking import AttackServices
from wmbench.errors import ConfigError
from wmbench.lab.codec import lab_codec
from wmbench.lab.datasets import null_texts
from wmbench.types import AttackContext, Attacked, AttackInput

LETTER = {"compress": "C", "expand": "E"}


def letters(plan: list[plans.Mode]) -> str:
    return "".join(LETTER[mode] for mode in plan)


@pytest.mark.parametrize("name", ["alternating", "half_split"])
def test_golden_fixed_plans(name: str) -> None:
    plan = plans.alternating if name == "alternating" else plans.halves
    assert {n: letters(plan(int(n))) for n in GOLDEN[name]} == GOLDEN[name]


def test_golden_random_runs() -> None:
    for case in GOLDEN["random_runs"]:
        plan = plans.random_runs(case["n"], case["seed"], case["row_key"], case["switch_probability"])
        assert letters(plan) == case["plan"], case


def test_golden_regions() -> None:
    sizes = {n: plans.region_sizes(int(n)) for n in GOLDEN["balanced_region_sizes"]}
    assert sizes == GOLDEN["balanced_region_sizes"]
    for case in GOLDEN["three_region_bands"]:
        bands = plans.region_bands(case["n_regions"], case["seed"], case["hashed_suffix"])
        assert [list(band) for band in bands] == case["bands"], case


# --- with the lab's rewriters --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lab_texts() -> list[AttackInput]:
    return [AttackInput(null.id, null.text) for null in null_texts("", 3)]


@pytest.fixture(scope="module")
def lab() -> AttackContext:
    return AttackServices(builder(), resolve({}).backbone).context(seed=5, codec=lab_codec())


@pytest.mark.parametrize("name", ["nonuniform-alternating", "nonuniform-runs"])
def test_sentences_change_their_length_by_plan(name: str, lab: AttackContext, lab_texts: list[AttackInput]) -> None:
    results = attack_all(name, lab_texts, lab)
    assert attack_all(name, lab_texts[1:2], lab) == results[1:2]
    ratios: dict[str, list[float]] = {"C": [], "E": []}
    for item, result in zip(lab_texts, results, strict=True):
        assert result.error is None
        assert result.text is not None
        before, after = sentences_of(item.text).parts, sentences_of(result.text).parts
        assert len(before) == len(after) == len(result.details["plan"])
        for mode, old, new in zip(result.details["plan"], before, after, strict=True):
            ratios[mode].append(len(new.split()) / len(old.split()))
    assert sum(ratios["C"]) / len(ratios["C"]) < 0.8
    assert sum(ratios["E"]) / len(ratios["E"]) > 1.15


def test_regions_meet_their_bands(lab: AttackContext, lab_texts: list[AttackInput]) -> None:
    for item, result in zip(lab_texts, attack_all("nonuniform-regions", lab_texts, lab), strict=True):
        assert result.text is not None
        assert len(result.details["bands"]) == 3
        assert result.details["missed"] <= 1
        assert 0.5 < len(result.text.split()) / len(item.text.split()) < 0.8


def test_the_lab_rewriters_take_a_band(lab: AttackContext, lab_texts: list[AttackInput]) -> None:
    assert lab.load_attack is not None
    for band in ((0.55, 0.6), (0.75, 0.8)):
        rewriter = lab.load_attack("lab-compress", {"shortest": band[0], "longest": band[1]})
        result = rewriter(lab_texts[:1], lab)[0]
        assert result.text is not None
        ratio = len(result.text.split()) / len(lab_texts[0].text.split())
        assert band[0] - 0.03 <= ratio <= band[1] + 0.03
    with pytest.raises(ConfigError, match="both `shortest` and `longest`"):
        lab.load_attack("lab-compress", {"shortest": 0.5})


# --- failures and paragraphs ---------------------------------------------------------------------------------------


def context_with(rewriter: object) -> AttackContext:
    return AttackContext(0, lab_codec(), load_attack=lambda name, settings: rewriter)  # type: ignore[arg-type, return-value]


def picky(texts: list[AttackInput], context: AttackContext) -> list[Attacked]:
    """Cannot do anything about sentences that speak of stones."""
    return [Attacked(None, "no") if "stone" in t.text else Attacked(f"{t.text[:-1]} now.") for t in texts]


def test_paragraphs_are_kept() -> None:
    text = "One here. Two here.\n\nThree here. Four here.\n"
    result = attack_all("nonuniform-alternating", [AttackInput("a", text)], context_with(picky))[0]
    assert result.text == "One here now. Two here now.\n\nThree here now. Four here now.\n"
    result = attack_all("nonuniform-regions", [AttackInput("a", text)], context_with(picky))[0]
    assert result.text is not None
    assert result.text.count("\n\n") == 1


@pytest.mark.parametrize("name", ["nonuniform-alternating", "nonuniform-regions"])
def test_too_many_sentences_that_stay_are_a_failure(name: str) -> None:
    text = "Cats run. A stone lies. Dogs run. Birds fly. Fish swim."
    item = [AttackInput("a", text)]
    assert attack_all(name, item, context_with(picky), tolerance=0.5)[0].details["unchanged"] >= 1
    result = attack_all(name, item, context_with(picky), tolerance=0.1)[0]
    assert result.text is None
    assert "cannot change" in (result.error or "")
    assert attack(name, "").error == "there is no sentence in it"


def test_an_unknown_rewriter_is_named(lab: AttackContext, lab_texts: list[AttackInput]) -> None:
    with pytest.raises(ConfigError, match="did you mean 'lab-compress'"):
        attack_all("nonuniform-alternating", lab_texts, lab, compress="lab-compres")
    with pytest.raises(ConfigError, match="no setting 'shortest'"):
        attack_all("nonuniform-regions", lab_texts, lab, compress="lab-rewrite")
