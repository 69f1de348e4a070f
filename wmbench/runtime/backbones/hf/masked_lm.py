"""Masked language models of the BERT family as backbones: small public models that run anywhere.

They were not trained to write, so their texts are poor; they share every code path with the large ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from wmbench.errors import ConfigError
from wmbench.runtime.backbone import Attention, Prefix, Windows
from wmbench.runtime.backbones.hf.backbone import banned_ids
from wmbench.runtime.backbones.hf.carrier import chosen_dtype, import_transformers
from wmbench.runtime.backbones.hf.codec import make_codec
from wmbench.runtime.backbones.hf.directory import Checkpoint
from wmbench.runtime.backbones.hf.settings import CheckpointSettings
from wmbench.runtime.backbones.hf.weights import fingerprint, stored_tensors
from wmbench.runtime.devices import one_device
from wmbench.types import TextCodec

_UNUSED = ("pooler", "seq_relationship", "position_ids", "discriminator_predictions")
"""Parts of stored checkpoints that a masked language model does not have."""


def _distilbert_head(model: Any, states: Tensor) -> Tensor:
    return model.vocab_projector(model.vocab_layer_norm(model.activation(model.vocab_transform(states))))


_HEADS: Mapping[str, Callable[[Any, Tensor], Tensor]] = {
    "albert": lambda model, states: model.predictions(states),
    "bert": lambda model, states: model.cls(states),
    "distilbert": _distilbert_head,
    "electra": lambda model, states: model.generator_lm_head(model.generator_predictions(states)),
    "modernbert": lambda model, states: model.decoder(model.head(states)),
    "roberta": lambda model, states: model.lm_head(states),
    "xlm-roberta": lambda model, states: model.lm_head(states),
    "camembert": lambda model, states: model.lm_head(states),
}
_POSITIONS_AFTER_PADDING = ("roberta", "xlm-roberta", "camembert")
"""Positions of these count from the id of the padding token."""


class MaskedLmBackbone:
    """A local masked language model, full attention."""

    logit_shift = 0

    def __init__(self, checkpoint: Checkpoint, settings: CheckpointSettings) -> None:
        kind = checkpoint.model_type
        if kind not in _HEADS:
            raise ConfigError(
                f"model_type {kind!r} is not covered",
                where=str(checkpoint.directory / "config.json"),
                why=f"covered: llada, Dream, llada2_moe, {', '.join(_HEADS)}",
                hint="a plugin can register a backbone of its own: docs/hooks.md",
            )
        self.device = one_device(settings.device, "a masked language model")
        self.name = f"{kind} ({checkpoint.directory.name})"
        codec = make_codec(checkpoint, settings.prompt, settings.question)
        self.codec: TextCodec = codec
        dtype = chosen_dtype(settings.dtype, self.device)
        self.fingerprint = fingerprint(stored_tensors(checkpoint.directory), str(dtype))
        self.model = _load(checkpoint, dtype).to(self.device)
        config = self.model.config
        self.vocab_size: int = config.vocab_size
        self.mask_id, self.eos_ids = codec.ids.mask, codec.ids.ends
        self.banned_ids: Sequence[int] = banned_ids(codec, self.vocab_size, checkpoint)
        self.attention = Attention()
        self._first_position = config.pad_token_id + 1 if kind in _POSITIONS_AFTER_PADDING else 0
        self._positions: int = config.max_position_embeddings - self._first_position
        self.max_length: int = min(settings.max_length or self._positions, self._positions)
        self._half_window: int | None = config.sliding_window if kind == "modernbert" else None
        self._head = _HEADS[kind]
        self._trunk: Any = self.model.base_model
        if settings.compile:
            self._trunk = torch.compile(self._trunk, dynamic=True)

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        # Padding may lie beyond the last position the model has; where it thinks it is does not matter.
        positions = windows.positions.clamp(max=self._positions - 1) + self._first_position
        with torch.inference_mode():
            states = self._trunk(
                input_ids=windows.ids, attention_mask=self._masks(windows), position_ids=positions
            ).last_hidden_state
        return states, [None] * len(windows.groups)

    def _masks(self, windows: Windows) -> Tensor | dict[str, Tensor]:
        """One mask for all layers; ModernBERT also has layers that see no further than half a window."""
        mask = windows.mask()
        if self._half_window is None:
            return mask
        distance = (windows.positions[:, :, None] - windows.positions[:, None, :]).abs()
        return {"full_attention": mask, "sliding_attention": mask & (distance <= self._half_window)[:, None]}

    def logits(self, states: Tensor) -> Tensor:
        with torch.inference_mode():
            return self._head(self.model, states).float()


def _load(checkpoint: Checkpoint, dtype: torch.dtype) -> Any:
    transformers = import_transformers()
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()  # what is missing or left over is judged below
    try:
        model, report = transformers.AutoModelForMaskedLM.from_pretrained(
            str(checkpoint.directory),
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            attn_implementation="sdpa",
            dtype=dtype,
            output_loading_info=True,
        )
    except Exception as error:  # transformers raises those of its parts: of files, of tensors, of checked settings
        raise ConfigError(
            f"{str(checkpoint.directory)!r} cannot be loaded",
            why=f"{type(error).__name__}: {error}".splitlines()[0],
            hint="use the directory as published; transformers must be able to load it as a masked language model",
        ) from error
    missing = sorted(report["missing_keys"])
    extra = sorted(name for name in report["unexpected_keys"] if not any(part in name for part in _UNUSED))
    for kind, names in (("is missing", missing), ("is not expected", extra)):
        if names:
            raise ConfigError(
                f"tensor {names[0]!r} {kind}",
                where=str(checkpoint.directory),
                hint="the directory must hold a whole masked language model, head included",
            )
    return model.eval().requires_grad_(False)
