"""Published diffusion language models behind the `Backbone` protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from wmbench.errors import ConfigError
from wmbench.runtime.backbone import Attention, Backbone, Prefix, Windows
from wmbench.runtime.backbones.hf.attention import WindowCache
from wmbench.runtime.backbones.hf.carrier import load_carrier
from wmbench.runtime.backbones.hf.codec import CheckpointCodec, make_codec
from wmbench.runtime.backbones.hf.directory import Checkpoint
from wmbench.runtime.backbones.hf.family import FAMILIES, family_of
from wmbench.runtime.backbones.hf.settings import CheckpointSettings, Llada2Settings
from wmbench.types import TextCodec


class CarrierBackbone:
    """LLaDA, Dream or LLaDA2.0 on the class of transformers that computes the same."""

    def __init__(self, checkpoint: Checkpoint, settings: CheckpointSettings) -> None:
        family = family_of(checkpoint)
        self.name = f"{family.name} ({checkpoint.directory.name})"
        codec = make_codec(checkpoint, settings.prompt, settings.question)
        self.codec: TextCodec = codec
        self.carrier = load_carrier(checkpoint, family, settings.device, settings.dtype)
        self.device = self.carrier.device
        self.fingerprint = self.carrier.fingerprint
        self.vocab_size: int = self.carrier.settings["vocab_size"]
        self.mask_id, self.eos_ids = codec.ids.mask, codec.ids.ends
        self.banned_ids: Sequence[int] = banned_ids(codec, self.vocab_size, checkpoint)
        self.attention = _attention(settings)
        self.logit_shift = family.logit_shift
        own_length = self.carrier.settings["max_position_embeddings"]
        self.max_length: int = settings.max_length or min(own_length, family.advised_length or own_length)
        self._trunk: Any = self.carrier.model.model
        if settings.compile:
            self._trunk = torch.compile(self._trunk, dynamic=True)

    def hidden(self, windows: Windows) -> tuple[Tensor, list[Prefix | None]]:
        # Without prefixes all windows meet in one call of the attention kernel, whose shapes repeat from step to step.
        simple = all(group.prefix is None and not group.keep for group in windows.groups)
        cache = None if simple else WindowCache(windows.groups)
        with torch.inference_mode():
            states: Tensor = self._trunk(
                input_ids=windows.ids,
                attention_mask=windows.mask(),
                position_ids=windows.positions,
                use_cache=False,
                window_cache=cache,
            ).last_hidden_state
        return states, [None] * len(windows.groups) if cache is None else cache.prefixes()

    def logits(self, states: Tensor) -> Tensor:
        head = self.carrier.model.lm_head
        with torch.inference_mode():
            return head(states.to(head.weight.device)).float().to(self.device)


def load_backbone(settings: CheckpointSettings) -> Backbone:
    """The factory that plugins register; config.json says which family it is."""
    checkpoint = Checkpoint.open(settings.path, settings.revision, with_weights=True)
    if checkpoint.model_type in FAMILIES:
        return CarrierBackbone(checkpoint, settings)
    from wmbench.runtime.backbones.hf.masked_lm import MaskedLmBackbone

    return MaskedLmBackbone(checkpoint, settings)


def banned_ids(codec: CheckpointCodec, vocab_size: int, checkpoint: Checkpoint) -> list[int]:
    """The mask, special ids except those that end an answer, and ids without a token."""
    if codec.size > vocab_size:
        raise ConfigError(
            f"the tokenizer has {codec.size} ids, the model only {vocab_size}",
            where=str(checkpoint.directory),
            hint="the tokenizer does not belong to the model; use both as published",
        )
    special = codec.special_ids - codec.ids.ends
    return sorted({codec.ids.mask, *special, *codec.unused_ids, *range(codec.size, vocab_size)})


def _attention(settings: CheckpointSettings) -> Attention:
    if not isinstance(settings, Llada2Settings):
        return Attention()
    if settings.attention == "reference":
        return Attention(settings.block_length, earlier="merged")
    return Attention(settings.block_length, origin="prompt")
