"""A `TextCodec` over a Hugging Face `tokenizer.json`, loaded with the `tokenizers` library."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wmbench.errors import ConfigError

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class TokenizerCodec:
    """Text and ids of one tokenizer; `prompt_layout` shows where a prompt goes (`{prompt}`)."""

    def __init__(self, serialized: str, prompt_layout: str = "{prompt}") -> None:
        from tokenizers import Tokenizer

        self._tokenizer: Tokenizer = Tokenizer.from_str(serialized)
        self._prompt_layout = prompt_layout
        self.fingerprint = hashlib.blake2b((serialized + prompt_layout).encode(), digest_size=8).hexdigest()

    @classmethod
    def from_file(cls, path: Path, prompt_layout: str = "{prompt}") -> TokenizerCodec:
        if not path.is_file():
            raise ConfigError(f"tokenizer file {str(path)!r} does not exist")
        return cls(path.read_text(encoding="utf-8"), prompt_layout)

    @cached_property
    def size(self) -> int:
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    @cached_property
    def special_ids(self) -> frozenset[int]:
        return frozenset(i for i, token in self._tokenizer.get_added_tokens_decoder().items() if token.special)

    def id_of(self, token: str) -> int:
        found = self._tokenizer.token_to_id(token)
        if found is None:
            raise ConfigError(f"the tokenizer has no token {token!r}")
        return int(found)

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(as_unicode(text), add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = self._tokenizer.encode_batch_fast([as_unicode(text) for text in texts], add_special_tokens=False)
        return [list(encoding.ids) for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._tokenizer.decode([int(i) for i in ids], skip_special_tokens=True)
        return text.strip()

    def encode_prompt(self, prompt: str) -> list[int]:
        head, _, tail = self._prompt_layout.partition("{prompt}")
        ids = [self._tokenizer.encode(part, add_special_tokens=False).ids for part in (head, as_unicode(prompt), tail)]
        return [i for part in ids for i in part]


def as_unicode(text: str) -> str:
    """Without lone surrogates, which no tokenizer takes: each becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")
