"""Context-aware substitution: words are replaced by what a masked language model finds likely in their place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from wmbench import hookimpl
from wmbench.errors import ConfigError
from wmbench.types import AttackContext, Attacked, AttackInput
from wmbench_attacks.checkpoints import require_checkpoint
from wmbench_attacks.config import AttackConfig
from wmbench_attacks.masked_words import BackboneWords, Gap, MaskedWords, load_words
from wmbench_attacks.pieces import Pieces, random_for, share_of, unchanged, words_of

HUGGING_FACE = "hf:"
_CORE = re.compile(r"\w(?:.*\w)?", re.DOTALL)
"""A word from its first letter or digit to its last."""


class SubstituteConfig(AttackConfig):
    """Settings of `substitute`."""

    ratio: float = Field(0.3, ge=0, le=1, description="Share of the words that the model is asked about.")
    model: str = Field(
        "",
        description="Masked language model: hf:<directory or hub id>, or a backbone by name; "
        "empty: the backbone of the run.",
    )
    top_k: int = Field(8, ge=1, description="Guesses looked at; the first other word among them is taken.")
    context: int = Field(250, ge=1, description="Tokens that the model sees on each side of the word.")

    @property
    def uses(self) -> Mapping[str, Mapping[str, dict[str, Any]]]:
        is_backbone = self.model and not self.model.startswith(HUGGING_FACE)
        return {"backbones": {self.model: {}}} if is_backbone else {}


class Substitute:
    """Asks the model about one word at a time, each in the original text."""

    def __init__(self, config: SubstituteConfig | None = None) -> None:
        self.config = config or SubstituteConfig()
        if self.config.model.startswith(HUGGING_FACE):
            require_checkpoint(self.config.model.removeprefix(HUGGING_FACE))

    @hookimpl
    def attack(self, texts: Sequence[AttackInput], context: AttackContext) -> list[Attacked]:
        model = self._model(context)
        return [self._one(item, context.seed, model) for item in texts]

    def _model(self, context: AttackContext) -> MaskedWords:
        name = self.config.model
        if name.startswith(HUGGING_FACE):
            return load_words(name.removeprefix(HUGGING_FACE), self.config.context)
        if context.load_backbone is None:
            raise ConfigError("there is no backbone to load here", hint="name a model: -A substitute.model=hf:<path>")
        return BackboneWords(context.load_backbone(name), self.config.context)

    def _one(self, item: AttackInput, seed: int, model: MaskedWords) -> Attacked:
        ratio, words = self.config.ratio, words_of(item.text)
        places = [i for i, word in enumerate(words.parts) if any(letter.isalnum() for letter in word)]
        count = share_of(ratio, len(places))
        details = {"words": len(words), "asked": count, "replaced": 0}
        if not count:
            why = f"{ratio:.0%} of {len(places)} words is none"
            return unchanged(why, details) if ratio else Attacked(item.text, details=details)
        chosen = sorted(random_for(seed, item.id, "substitution", ratio).sample(places, count))
        gaps = [self._gap(words, place, item.prompt) for place in chosen]
        parts = list(words.parts)
        for place, guesses in zip(chosen, model.guesses(gaps, self.config.top_k), strict=True):
            before, old, behind = surrounded(parts[place])
            new = next((guess for guess in guesses if guess.casefold() != old.casefold()), None)
            if new is not None:
                parts[place] = before + (new[:1].upper() + new[1:] if old[:1].isupper() else new) + behind
                details["replaced"] += 1
        if not details["replaced"]:
            return unchanged(f"the model has no other word for {count} of them", details)
        return Attacked(words.with_parts(parts).text, details=details)

    def _gap(self, words: Pieces, place: int, prompt: str) -> Gap:
        """The text around a word. No more words than the model can see tokens: a word is one token at least."""
        before, _, behind = surrounded(words.parts[place])
        first, end = max(0, place - 2 * self.config.context), place + 1 + 2 * self.config.context
        left = words.span(first, place) + words.gaps[place - 1] + before if place else before
        right = behind + words.gaps[place] + words.span(place + 1, end)
        # The space before a word is part of its token in most tokenizers, hence of the mask.
        return Gap(left.removesuffix(" "), right.rstrip(), prompt)


def surrounded(word: str) -> tuple[str, str, str]:
    """Punctuation before, the word itself, punctuation behind."""
    core = _CORE.search(word)
    return (word[: core.start()], core[0], word[core.end() :]) if core else (word, "", "")
