"""What holds for every attack on any text; `hypothesis` looks for a text on which it does not."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from wmbench.types import Attacked

OFFLINE = (
    *("identity", "delete", "swap", "substitute", "remask", "copy-paste", "crop", "homoglyph", "whitespace"),
    *("nonuniform-alternating", "nonuniform-halves", "nonuniform-runs", "nonuniform-regions"),
    *("lab-rewrite", "lab-compress", "lab-expand", "lab-document"),
)
"""Attacks that need nothing but this package."""
SENTENCE_LLM = ("llm-rewrite", "llm-compress", "llm-expand", "llm-translate")
DOCUMENT_LLM = ("llm-document-rewrite", "llm-document-compress", "llm-document-expand", "llm-document-translate")
PARAPHRASERS = ("parrot", "dipper", "pegasus")
ENGINES = ("round-trip",)

_SCRAPS = (
    *("word ", "Two words. ", "w3 w4 w5 ", "A a a a. ", "3. ", "… ", "\n\n", "\r\n", "\t", "\x00", "<b>", "{x}"),
    *("مرحبا بالعالم. ", "שלום עולם? ", "これは文章です。", "e\u0301", "\u200b", "\u202e"),
    *("👩\u200d👩\u200d👧\u200d👦 ", "👍🏽", "🇺🇳 "),
)
ANY_TEXT = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(_SCRAPS), max_size=12).map("".join))
"""Any characters at all, and mixtures of what is known to be hard."""
SEEDS = st.integers(0, 9)


def assert_sound(attack: Callable[[], Attacked], text: str) -> None:
    """It answers honestly, and the same again."""
    result = attack()
    assert attack() == result, "the seed decides everything"
    assert_honest(result, text)


def assert_honest(result: Attacked, text: str) -> None:
    """A text that can be written and is another one, or a reason why there is none."""
    assert (result.text is None) == bool(result.error)
    if result.text is not None:
        result.text.encode()
        assert result.text != text, "what changed nothing is a failure"
