"""Masked language models that guess a missing word: Hugging Face BERTs, and the backbones themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from wmbench.errors import ConfigError
from wmbench_attacks.checkpoints import load_whole

if TYPE_CHECKING:
    from wmbench.runtime.backbone import Backbone

_ROWS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Gap:
    """A text with one word missing."""

    left: str
    right: str
    prompt: str = ""
    """What the text answers; models without a prompt ignore it."""


class MaskedWords(Protocol):
    def guesses(self, gaps: Sequence[Gap], count: int) -> list[list[str]]:
        """Of every gap the words among the model's `count` likeliest tokens, likeliest first."""


class BackboneWords:
    """A diffusion language model with one cell masked."""

    def __init__(self, backbone: Backbone, context: int) -> None:
        self._backbone = backbone
        self._context = context

    def guesses(self, gaps: Sequence[Gap], count: int) -> list[list[str]]:
        from wmbench.runtime.infill import Canvas, likeliest_tokens

        codec, canvases = self._backbone.codec, []
        for number, gap in enumerate(gaps):
            prompt = codec.encode_prompt(gap.prompt)
            if 2 * len(prompt) > self._backbone.max_length:
                prompt = []  # it would leave no room for the text
            room = min(2 * self._context, self._backbone.max_length - len(prompt) - 1)
            left, right = trimmed(self._ids(gap.left), self._ids(gap.right), room)
            canvases.append(Canvas(str(number), prompt, [*left, self._backbone.mask_id, *right], [len(left)]))
        found = likeliest_tokens(self._backbone, canvases, count)
        return [list(whole_words(ids[0].tolist(), codec.encode, codec.decode)) for ids in found]

    def _ids(self, text: str) -> list[int]:
        """Without ids that stand for no text, should the text spell one."""
        return [i for i in self._backbone.codec.encode(text) if i not in self._backbone.codec.special_ids]


class HuggingFaceWords:
    """A BERT-like model from a local directory or the hub."""

    def __init__(self, source: str, context: int) -> None:
        import torch

        self._tokenizer, self._model = load_whole("AutoModelForMaskedLM", source, "masked language model", "float32")
        if self._tokenizer.mask_token_id is None:
            raise ConfigError(f"{source!r} has no mask token, so it is no masked language model")
        self._model.to("cuda" if torch.cuda.is_available() else "cpu")
        self._longest = min(int(self._model.config.max_position_embeddings), int(self._tokenizer.model_max_length))
        self._context = context

    def guesses(self, gaps: Sequence[Gap], count: int) -> list[list[str]]:
        """A text's gaps are batched among themselves only, so that no other text can change a bit of the result."""
        import torch

        rows = [self._row(gap) for gap in gaps]
        found: list[list[str]] = []
        with torch.inference_mode():
            for at in range(0, len(rows), _ROWS_AT_ONCE):
                part = rows[at : at + _ROWS_AT_ONCE]
                width = max(len(ids) for ids, _ in part)
                ids = torch.full((len(part), width), self._tokenizer.pad_token_id or 0)
                mask = torch.zeros_like(ids)
                for i, (row, _) in enumerate(part):
                    ids[i, : len(row)] = torch.tensor(row)
                    mask[i, : len(row)] = 1
                device = self._model.device
                logits = self._model(input_ids=ids.to(device), attention_mask=mask.to(device)).logits
                holes = logits[torch.arange(len(part)), torch.tensor([hole for _, hole in part])]
                for best in holes.topk(min(count, holes.shape[-1]), dim=-1).indices.tolist():
                    found.append(list(whole_words(best, self._encode, self._tokenizer.decode)))
        return found

    def _row(self, gap: Gap) -> tuple[list[int], int]:
        """Ids with the mask in the middle, and the place of the mask."""
        tokenizer = self._tokenizer
        first = [i for i in (tokenizer.cls_token_id,) if i is not None]
        last = [i for i in (tokenizer.sep_token_id,) if i is not None]
        room = min(2 * self._context, self._longest - len(first) - len(last) - 1)
        left, right = trimmed(self._encode(gap.left), self._encode(gap.right), room)
        return [*first, *left, tokenizer.mask_token_id, *right, *last], len(first) + len(left)

    def _encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ids


@lru_cache(maxsize=1)
def load_words(source: str, context: int) -> HuggingFaceWords:
    """The last one stays loaded, for all strengths of a curve and all batches of a worker."""
    return HuggingFaceWords(source, context)


def trimmed(left: list[int], right: list[int], room: int) -> tuple[list[int], list[int]]:
    """What is nearest to the gap; a side that needs less than half of the room leaves the rest to the other."""
    half = room // 2
    before = min(len(left), max(half, room - len(right)))
    after = min(len(right), room - before)
    return left[len(left) - before :], right[:after]


def whole_words(
    ids: Sequence[int], encode: Callable[[str], list[int]], decode: Callable[[list[int]], str]
) -> Iterator[str]:
    """The tokens that are words by themselves: letters, perhaps with digits, and not a piece of a longer word."""
    for i in ids:
        word = decode([i]).strip()
        if word.isalnum() and not word.isdecimal() and encode(f" {word}") == [i]:
            yield word
