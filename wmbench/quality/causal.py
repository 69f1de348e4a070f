"""Log-perplexity under a causal model of transformers (extra `hf`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from wmbench.errors import ConfigError

_TEXTS_AT_ONCE = 4


class CausalJudge:
    """The text follows its prompt after an empty line; only the text's tokens count. Where the two are longer than the
    model has positions, it reads the end of the prompt, and of a text that alone is too long the beginning."""

    def __init__(self, name: str) -> None:
        try:
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError as error:
            raise ConfigError("this judge needs transformers", hint="pip install 'wmbench[hf]'") from error
        try:
            where = str(Path(name).expanduser()) if name.startswith("~") else name
            self._tokenizer: Any = AutoTokenizer.from_pretrained(where)
            # In bfloat16, as many are stored, a text's figure would depend on its neighbours in the batch.
            model: Any = AutoModelForCausalLM.from_pretrained(where, use_safetensors=True, dtype=torch.float32)
        except (OSError, ValueError) as error:
            hint = "name a folder or a hub model with safetensors weights: hf:<folder or owner/name>"
            raise ConfigError("the judge cannot be loaded", where=name, why=str(error), hint=hint) from error
        self._model = model.eval()
        self._positions: int = getattr(model.config, "max_position_embeddings", None) or sys.maxsize

    def log_perplexity(self, prompt: Sequence[str], texts: Sequence[str]) -> npt.NDArray[np.float64]:
        result = np.full(len(texts), np.nan)
        for at in range(0, len(texts), _TEXTS_AT_ONCE):
            part = slice(at, at + _TEXTS_AT_ONCE)
            result[part] = self._batch(prompt[part], texts[part])
        return result

    def _batch(self, prompts: Sequence[str], texts: Sequence[str]) -> list[float]:
        heads = [self._tokenizer(f"{prompt}\n\n")["input_ids"] for prompt in prompts]
        tails = [self._tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
        tails = [tail[: self._positions - 1] for tail in tails]
        heads = [head[-(self._positions - len(tail)) :] for head, tail in zip(heads, tails, strict=True)]
        longest = max(len(head) + len(tail) for head, tail in zip(heads, tails, strict=True))
        ids = torch.zeros(len(texts), longest, dtype=torch.long)
        attended = torch.zeros_like(ids)
        for row, (head, tail) in enumerate(zip(heads, tails, strict=True)):
            ids[row, : len(head) + len(tail)] = torch.tensor(head + tail)
            attended[row, : len(head) + len(tail)] = 1
        with torch.inference_mode():
            logits = self._model(input_ids=ids, attention_mask=attended).logits
        losses = -logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0].double()
        # The loss at position i is that of token i + 1; a text begins at its head's length.
        return [
            float(losses[row, len(head) - 1 : len(head) + len(tail) - 1].mean()) if tail and head else float("nan")
            for row, (head, tail) in enumerate(zip(heads, tails, strict=True))
        ]
