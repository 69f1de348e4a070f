"""`mini-judge`: how surprising is a text to a causal model that had no part in writing it?

It knows the lab language only, so it ranks schemes on the lab; its figures mean nothing on other text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load

from wmbench.errors import ConfigError, IntegrityError
from wmbench.lab.codec import PAD, lab_codec, weights_folder
from wmbench.lab.training.corpus import Example
from wmbench.lab.training.judge import causal_batch, token_losses
from wmbench.runtime.backbones.transformer import MaskedDiffusionTransformer, TransformerShape

WEIGHTS = "mini-judge.safetensors"
MAX_ANSWER_TOKENS = 600
"""Longer texts are judged by their beginning: far beyond the 300 tokens of training positions mean nothing."""


class Judge:
    """Perplexity under `mini-judge`. fp16 on disk, fp32 in memory; the shape is read off the tensors."""

    def __init__(self, path: Path | None = None) -> None:
        source = path or weights_folder() / WEIGHTS
        if not source.is_file():
            raise ConfigError("the weights of `mini-judge` are not installed", hint="run `wmbench lab train-judge`")
        self.codec = lab_codec()
        raw = source.read_bytes()
        state = {name: tensor.float() for name, tensor in load(raw).items()}
        rows, width = state["embedding.weight"].shape
        if rows != self.codec.size:
            raise IntegrityError(
                "the weights of `mini-judge` do not fit its tokenizer", why=f"{rows} rows for {self.codec.size} ids"
            )
        layers = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("layers."))
        mlp_width = state["layers.0.down.weight"].shape[1]
        shape = TransformerShape(rows, width, layers, width // 64, mlp_width, normed_heads=True)
        self.model = MaskedDiffusionTransformer(shape)
        self.model.load_state_dict(state)
        self.model.eval().requires_grad_(False)
        self.pad_id = self.codec.id_of(PAD)
        self.fingerprint = hashlib.blake2b(raw, digest_size=8).hexdigest()

    def log_perplexity(
        self, prompt: str | Sequence[str], texts: Sequence[str], batch_size: int = 16
    ) -> npt.NDArray[np.float64]:
        """[n] mean negative log-likelihood (nats) per token of each text as an answer to its prompt; one prompt may
        stand for all. A text without a token has none: NaN."""
        prompts = [prompt] * len(texts) if isinstance(prompt, str) else list(prompt)
        if len(prompts) != len(texts):
            raise ConfigError(f"{len(prompts)} prompts for {len(texts)} texts")
        answers = self.codec.encode_batch(texts)
        rows = [
            Example(self.codec.encode_prompt(p), a[:MAX_ANSWER_TOKENS]) for p, a in zip(prompts, answers, strict=True)
        ]
        result = np.full(len(texts), np.nan)
        # Texts of like length go together, so that little is computed for padding.
        order = sorted((i for i, row in enumerate(rows) if row.answer_ids), key=lambda i: len(rows[i].answer_ids))
        with torch.inference_mode():
            for begin in range(0, len(order), batch_size):
                at = order[begin : begin + batch_size]
                losses = token_losses(self.model, causal_batch([rows[i] for i in at], self.pad_id)).double().numpy()
                lengths = [len(rows[i].answer_ids) for i in at]
                result[at] = [part.mean() for part in np.split(losses, np.cumsum(lengths)[:-1])]
        return result
