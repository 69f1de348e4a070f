"""Text and ids of a checkpoint, and its prompt layout: all that detection needs. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property

from tokenizers import Tokenizer

from wmbench.errors import ConfigError
from wmbench.runtime.backbones.hf.directory import Checkpoint
from wmbench.runtime.backbones.hf.family import FAMILIES, family_of
from wmbench.runtime.backbones.hf.settings import CheckpointSettings
from wmbench.runtime.backbones.hf.template import shipped_layout
from wmbench.runtime.backbones.hf.tokenizer import SpecialIds, load_tokenizer, special_ids
from wmbench.runtime.codec import TokenizerCodec, as_unicode

_PLACE = "{prompt}"


class CheckpointCodec(TokenizerCodec):
    """`layout` holds `{prompt}` where the prompt goes. In plain text the names of special tokens are just text."""

    def __init__(self, tokenizer: Tokenizer, layout: str, ids: SpecialIds, *, trims_prompt: bool = False) -> None:
        super().__init__(tokenizer.to_str(), layout)
        self.ids = ids
        self.layout = layout
        self._trims_prompt = trims_prompt
        self._with_markers = tokenizer
        self._tokenizer.encode_special_tokens = True

    @cached_property
    def size(self) -> int:
        """One past the largest id: there may be holes."""
        return 1 + max(self._with_markers.get_vocab(with_added_tokens=True).values())

    @cached_property
    def special_ids(self) -> frozenset[int]:
        return self.ids.every

    @cached_property
    def unused_ids(self) -> frozenset[int]:
        """Ids below `size` without a token."""
        return frozenset(range(self.size)) - set(self._with_markers.get_vocab(with_added_tokens=True).values())

    def token_of(self, token_id: int) -> str:
        return self._with_markers.id_to_token(token_id) or "(no token)"

    def decode(self, ids: Sequence[int]) -> str:
        return super().decode([i for i in ids if i not in self.ids.every])

    def encode_prompt(self, prompt: str) -> list[int]:
        """As one text, like the published code; but a prompt cannot forge markers by spelling them out."""
        text = as_unicode(prompt)
        text = text.strip() if self._trims_prompt else text
        head, _, tail = self.layout.partition(_PLACE)
        if not self._forges_markers(text):
            return list(self._with_markers.encode(head + text + tail, add_special_tokens=False).ids)
        before, after = (self._with_markers.encode(part, add_special_tokens=False).ids for part in (head, tail))
        return [*before, *self.encode(text), *after]

    def _forges_markers(self, text: str) -> bool:
        return any(i in self.ids.every for i in self._with_markers.encode(text, add_special_tokens=False).ids)


def codec_of(settings: CheckpointSettings) -> CheckpointCodec:
    """The factory that plugins register: the tokenizer alone."""
    return make_codec(Checkpoint.open(settings.path, settings.revision), settings.prompt, settings.question)


def make_codec(checkpoint: Checkpoint, prompt: str = "chat", question: str = _PLACE) -> CheckpointCodec:
    """`prompt` names the layout; `question` holds fixed words around the prompt, inside the layout."""
    tokenizer = load_tokenizer(checkpoint)
    if checkpoint.model_type not in FAMILIES:
        return _masked_lm_codec(checkpoint, tokenizer, question)
    family = family_of(checkpoint)
    ids = special_ids(checkpoint, tokenizer, family.mask_tokens, family.end_tokens)
    if prompt == "plain":
        return CheckpointCodec(tokenizer, question, ids)
    if prompt == "shipped":
        layout = shipped_layout(checkpoint)
    else:
        _require_markers(checkpoint, tokenizer, family.prompt)
        layout = family.prompt
    return CheckpointCodec(tokenizer, layout.replace(_PLACE, question), ids, trims_prompt=family.trims_prompt)


def _require_markers(checkpoint: Checkpoint, tokenizer: Tokenizer, layout: str) -> None:
    missing = [marker for marker in re.findall(r"<\|\w+\|>", layout) if tokenizer.token_to_id(marker) is None]
    if missing:
        raise ConfigError(
            f"the tokenizer has no token {missing[0]!r}, which the prompt layout needs",
            where=str(checkpoint.directory),
            why="base models, and some variants, have no chat layout",
            hint="use --no-chat-template, or -B prompt=shipped",
        )


def _masked_lm_codec(checkpoint: Checkpoint, tokenizer: Tokenizer, question: str) -> CheckpointCodec:
    """BERT and its kin: the prompt stands behind the token that begins every text."""
    ids = special_ids(checkpoint, tokenizer, ("[MASK]", "<mask>"), ("[SEP]", "</s>"))
    begin = next((token for token in ("[CLS]", "<s>") if tokenizer.token_to_id(token) is not None), "")
    return CheckpointCodec(tokenizer, begin + question, ids)
