"""Sequence-to-sequence checkpoints through transformers: loading, encoding, beam search and counter-based sampling."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from wmbench.runtime.sampling import draw_tokens
from wmbench_attacks.checkpoints import load_whole, located

if TYPE_CHECKING:
    from torch import Tensor

Sampling = tuple[Sequence[npt.NDArray[np.float64]], float, float]
"""Uniforms of every row, temperature, top-p."""
_GPU_BATCH = 8
_TAIL_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Output:
    text: str
    is_whole: bool
    """Ended by the model itself, not by the limit."""


class Seq2SeqModel:
    """A loaded checkpoint."""

    def __init__(self, tokenizer: Any, model: Any, fingerprint: str) -> None:
        self._tokenizer = tokenizer
        self._model = model
        self.fingerprint = fingerprint
        # Else the last token would always look like an end that the model chose.
        model.generation_config.forced_eos_token_id = None
        self._longest = getattr(model.config, "max_position_embeddings", None)
        # The logits may be wider than the tokenizer: those ids stand for no text.
        self._nameless = list(range(len(tokenizer), model.config.vocab_size))

    def encode(self, text: str, most: int) -> list[int] | None:
        """Ids of an input; None when there are too many: nothing is ever left out in silence."""
        ids: list[int] = self._tokenizer(text, verbose=False)["input_ids"]
        return ids if len(ids) <= min(most, self._longest or most) else None

    def generate(
        self,
        inputs: Sequence[list[int]],
        max_new_tokens: int,
        batch_size: int | None = None,
        *,
        sampling: Sampling | None = None,
        **options: Any,
    ) -> list[list[Output]]:
        """The outputs of every input: one, or `num_return_sequences` beams, likeliest first."""
        if batch_size is None:
            batch_size = _GPU_BATCH if self._model.device.type == "cuda" else 1
        if self._longest:
            max_new_tokens = min(max_new_tokens, self._longest - 1)
        # Neighbours of one length waste no padding.
        order = sorted(range(len(inputs)), key=lambda place: len(inputs[place]))
        found: dict[int, list[Output]] = {}
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            draws = (stacked(sampling[0], places), *sampling[1:]) if sampling else None
            rows = self._generate([inputs[place] for place in places], max_new_tokens, draws, options)
            each = len(rows) // len(places)
            for number, place in enumerate(places):
                found[place] = [self._output(row) for row in rows[number * each : (number + 1) * each]]
        return [found[place] for place in range(len(inputs))]

    def _generate(
        self,
        inputs: Sequence[list[int]],
        max_new_tokens: int,
        draws: tuple[Tensor, float, float] | None,
        options: dict[str, Any],
    ) -> list[list[int]]:
        """Ids of every output row."""
        import torch

        width = max(len(ids) for ids in inputs)
        ids = torch.full((len(inputs), width), self._tokenizer.pad_token_id)
        mask = torch.zeros_like(ids)
        for number, row in enumerate(inputs):
            ids[number, : len(row)] = torch.tensor(row)
            mask[number, : len(row)] = 1
        device = self._model.device
        with torch.inference_mode():
            rows: Tensor = self._model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                max_new_tokens=max_new_tokens,
                do_sample=False,
                suppress_tokens=self._nameless or None,
                logits_processor=[_Draw(*draws)] if draws else [],
                **options,
            )
        return rows.tolist()

    def _output(self, row: list[int]) -> Output:
        generated = row[1:]  # behind the decoder's start token
        text = self._tokenizer.decode(generated, skip_special_tokens=True)
        return Output(text.strip(), self._tokenizer.eos_token_id in generated)


class _Draw:
    """Leaves one token per row: the one drawn by that row's own uniform of that step. Then greedy search is sampling,
    and a row does not depend on the others in its batch."""

    def __init__(self, uniforms: Tensor, temperature: float, top_p: float) -> None:
        self._uniforms = uniforms
        self._temperature = temperature
        self._top_p = top_p

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """[rows, V] logits in, the same shape out."""
        import torch

        step = input_ids.shape[1] - 1
        uniforms = self._uniforms[:, step].to(scores.device)
        tokens = draw_tokens(scores.float(), uniforms, self._temperature, top_p=self._top_p)
        return torch.full_like(scores, -torch.inf).scatter(1, tokens.unsqueeze(1), 0.0)


def stacked(uniforms: Sequence[npt.NDArray[np.float64]], places: Sequence[int]) -> Tensor:
    import torch

    return torch.from_numpy(np.stack([uniforms[place] for place in places]))


@lru_cache(maxsize=1)
def load_model(source: str, tokenizer_source: str | None, dtype: str) -> Seq2SeqModel:
    """A checkpoint by directory or hub id; the last one stays loaded."""
    import torch

    tokenizer, model = load_whole("AutoModelForSeq2SeqLM", source, "paraphrase model", dtype, tokenizer_source)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    return Seq2SeqModel(tokenizer, model, _fingerprint(located(source), model))


def _fingerprint(place: str, model: Any) -> str:
    """Of a directory the configuration, and size and end of every weights file (whole files may have 45 GB); of a hub
    model its id and revision."""
    folder = Path(place)
    if not folder.is_dir():
        return f"{place}@{getattr(model.config, '_commit_hash', None) or 'unknown'}"
    digest = hashlib.blake2b((folder / "config.json").read_bytes(), digest_size=8)
    for path in sorted(folder.glob("*.safetensors")):
        size = path.stat().st_size
        with path.open("rb") as file:
            file.seek(max(0, size - _TAIL_BYTES))
            digest.update(f"{path.name} {size} ".encode() + file.read())
    return digest.hexdigest()
