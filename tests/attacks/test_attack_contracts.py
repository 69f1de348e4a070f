"""Every built-in attack keeps the contract that third parties are asked to keep."""

from __future__ import annotations

from tests.attacks.helpers import info
from wmbench.testing import AttackContract


class TestDelete(AttackContract):
    info = info("delete")


class TestSwap(AttackContract):
    info = info("swap")


class TestSubstitute(AttackContract):
    info = info("substitute")
    settings = {"context": 4, "top_k": 20, "ratio": 0.1}  # noqa: RUF012


class TestRemask(AttackContract):
    info = info("remask")
    settings = {"tokens_per_step": 256, "min_similarity": 0.2}  # noqa: RUF012


class TestAlternating(AttackContract):
    info = info("nonuniform-alternating")


class TestHalves(AttackContract):
    info = info("nonuniform-halves")


class TestRandomRuns(AttackContract):
    info = info("nonuniform-runs")


class TestRegions(AttackContract):
    info = info("nonuniform-regions")


class TestCopyPaste(AttackContract):
    info = info("copy-paste")
    settings = {"excerpts": 2}  # noqa: RUF012


class TestCrop(AttackContract):
    info = info("crop")


class TestHomoglyph(AttackContract):
    info = info("homoglyph")


class TestWhitespace(AttackContract):
    info = info("whitespace")


def test_no_attack_of_these_families_is_left_out() -> None:
    import wmbench_attacks

    contracts = {item.info.name for item in globals().values() if _is_contract(item)}
    families = {
        "wmbench_attacks.words",
        "wmbench_attacks.substitute",
        "wmbench_attacks.remask",
        "wmbench_attacks.nonuniform",
        "wmbench_attacks.excerpt",
        "wmbench_attacks.noise",
    }
    registered = wmbench_attacks.register_attacks()
    assert contracts == {attack.name for attack in registered if attack.factory.split(":")[0] in families}


def _is_contract(item: object) -> bool:
    return isinstance(item, type) and issubclass(item, AttackContract) and item is not AttackContract
