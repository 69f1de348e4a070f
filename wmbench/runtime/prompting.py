"""From a prompt to its ids, refused where they leave no room for the answer. Imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wmbench.errors import ConfigError
from wmbench.types import Sample

if TYPE_CHECKING:
    from wmbench.runtime.backbone import Backbone
    from wmbench.runtime.settings import Decoding


def fitting_prompt(sample: Sample, backbone: Backbone, decoding: Decoding) -> list[int]:
    """Ids of the sample's prompt in the model's own layout."""
    ids = backbone.codec.encode_prompt(sample.prompt)
    if not ids:
        raise ConfigError(f"sample {sample.id}: the prompt is empty", hint="leave the sample out, or give it a prompt")
    total = len(ids) + decoding.max_new_tokens
    if total > backbone.max_length:
        raise ConfigError(
            f"sample {sample.id}: prompt and answer need {total} positions, {backbone.name} has {backbone.max_length}",
            hint="shorten the prompt or lower max_new_tokens",
        )
    return ids
