"""The contract of an attack. Subclass it and name what your plugin registers:

class TestMine(AttackContract):
    info = my_package.register_attacks()[0]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from wmbench.host import load_attribute
from wmbench.testing.harness import build, hooks_of, undocumented_settings
from wmbench.testing.toys import ToyEncoder, tiny_backbone, toy_texts
from wmbench.types import AttackContext, Attacked, AttackInfo, AttackInput, NullText
from wmbench.types.registration import EVERYTHING

HARD_TEXTS: Mapping[str, str] = {
    "empty": "",
    "blank": " \t\n ",
    "one word": "word",
    "one letter": "a",
    "100 kB": "All work and no play makes Jack a dull boy. " * 2_300,
    "one long word": "x" * 5_000,
    "right to left": "مرحبا بالعالم. שלום עולם, מה שלומך?",
    "emoji": "👩‍👩‍👧‍👦 says hi 🇺🇳, twice: 👍🏽👍🏽!",
    "combining marks": "Z̷͎͐a̴͚͗l̶̰̀g̸͓̑o̷͇͝ e\u0301 é",
    "no spaces": "これは空白のない文章です。次の文もそうです。",
    "markup": "<b>bold</b> & `code`\r\n\r\n* item\x00 with a control character",
}


def toy_nulls(name: str, limit: int) -> list[NullText]:
    """Unmarked texts in the words of the tiny backbones."""
    return [NullText(f"null-{i}", text, "toy") for i, text in enumerate(toy_texts([40] * min(limit, 20), seed=9))]


def shout(texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
    """The attack that others may build on: upper case, and a word more."""
    return [Attacked(f"{item.text.upper()} INDEED") for item in texts]


class AttackContract:
    """What every attack must keep."""

    info: ClassVar[AttackInfo]
    """What the plugin registers."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """Configuration to test with."""
    texts: ClassVar[Sequence[str]] = (
        "The river rises in spring. It floods the meadows, and the cattle move uphill.",
        "Save a little every month. Small sums grow, because interest earns interest!",
        "The river rises in spring. It floods the meadows, and the cattle move uphill.",
        *toy_texts([30, 60], seed=8),
    )
    """Ordinary texts; two of them are equal, with different ids."""

    def run(self, items: Sequence[AttackInput], seed: int = 0) -> list[Attacked]:
        """Attack with a fresh instance, through the checked hook: every result has either a text or an error."""
        backbone = tiny_backbone()
        context = AttackContext(
            seed, backbone.codec, lambda name: ToyEncoder(), lambda name: backbone, toy_nulls, lambda *_: shout
        )
        return list(hooks_of(build(self.info, self.settings), self.info.name).attack(items, context))

    def items(self) -> list[AttackInput]:
        return [AttackInput(f"id-{i}", text, "a prompt") for i, text in enumerate(self.texts)]

    def test_is_described(self) -> None:
        assert self.info.summary, "the summary is the line in `wmbench ls`"
        assert "\n" not in self.info.summary, "the summary is one line in `wmbench ls`"
        assert self.info.preserves, "say what the attack leaves intact"
        fields: Mapping[str, Any] = {}
        if self.info.config is not None:
            config = load_attribute(self.info.config)
            assert issubclass(config, BaseModel), "the configuration is a pydantic model"
            assert undocumented_settings(config) == [], "every setting has a description"
            fields = config.model_fields
        assert self.info.strength is None or self.info.strength in fields, "`strength` names a setting"

    def test_attacks_ordinary_texts(self) -> None:
        errors = [result.error for result in self.run(self.items()) if result.error]
        assert not errors, "ordinary texts must not fail"

    def test_changes_the_text(self) -> None:
        """A text that is returned as it was makes a scheme look robust. A control that says it preserves `everything`
        and strength 0 change nothing at all."""
        unchanged = sum(result.text == text for result, text in zip(self.run(self.items()), self.texts, strict=True))
        if self.info.preserves == EVERYTHING or self.settings.get(self.info.strength or "") == 0:
            assert unchanged == len(self.texts), f"a control, or strength 0, preserves {EVERYTHING}"
            pytest.skip(f"preserves {EVERYTHING}, as it says")
        hint = f"return an error that says why, or register a control with preserves={EVERYTHING!r}"
        assert unchanged == 0, f"{unchanged} of {len(self.texts)} texts are as they were: {hint}"

    def test_is_deterministic(self) -> None:
        assert self.run(self.items()) == self.run(self.items())

    def test_order_does_not_matter(self) -> None:
        """An item's randomness depends on the seed and its id alone, not on its place or its company."""
        together = self.run(self.items())
        assert self.run(self.items()[::-1])[::-1] == together
        assert [self.run([item])[0] for item in self.items()] == together

    def test_one_result_per_text(self) -> None:
        assert self.run([]) == []
        assert len(self.run(self.items()[:1])) == 1

    def test_survives_hard_texts(self) -> None:
        """A result, or an error that says why; never an exception, never text that cannot be written to a file."""
        items = [AttackInput(name, text) for name, text in HARD_TEXTS.items()]
        for item, result in zip(items, self.run(items), strict=True):
            if result.text is None:
                assert result.error, f"{item.id}: a failed item says why"
            else:
                assert _is_unicode(result.text), f"{item.id}: a lone surrogate cannot be written as UTF-8"


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
