"""Builds and runs a registered thing the way the benchmark does: from its import paths, through the checked hooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from wmbench.host import PluginRecord, load_attribute
from wmbench.keys import SecretKey
from wmbench.registry import INLINE
from wmbench.run_hooks import RunHooks
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.types import Generation, Registered, Sample, SchemeContext, TextCodec, TextContext, Views

SHORT = Decoding(max_new_tokens=20, block_length=16, tokens_per_step=2, temperature=1.0)
"""A short answer in ten steps, whose last block is not full."""


def build(info: Registered, settings: Mapping[str, Any], *arguments: Any) -> Any:
    """Call a registered factory with its validated configuration (None if it has none) and what else it takes."""
    config = load_attribute(info.config)(**settings) if info.config else None
    return load_attribute(info.factory)(config, *arguments)


def hooks_of(plugin: object, name: str = "", codec: TextCodec | None = None) -> RunHooks:
    """The checked run hooks of a scheme or attack object."""
    return RunHooks(plugin, PluginRecord(name or type(plugin).__name__, "under test", INLINE), codec=codec)


def run_scheme(
    scheme: object,
    backbone: Backbone,
    samples: Iterable[Sample],
    decoding: Decoding = SHORT,
    *,
    batch_size: int = 8,
    seed: int = 0,
) -> list[Generation]:
    """Answer every sample; generations in the order of the samples."""
    ordered = list(samples)
    hooks = hooks_of(scheme, codec=backbone.codec)
    finished = decode(
        ordered,
        make_engine(backbone, decoding),
        decoding,
        hooks.decode_step,
        hooks.begin,
        seed=seed,
        batch_size=batch_size,
    )
    by_id = {generation.sample.id: generation for generation in finished}
    return [by_id[sample.id] for sample in ordered]


def score_texts(
    scheme: object, codec: TextCodec, texts: Sequence[str], key: SecretKey | None, context: TextContext | None = None
) -> Views:
    """Features, then scores, as the benchmark computes them."""
    context = context or TextContext()
    hooks = hooks_of(scheme, codec=codec)
    return hooks.score(hooks.features(texts, context), key, context)


def scheme_context(codec: TextCodec, key: SecretKey | None, decoding: Decoding = SHORT) -> SchemeContext:
    """What the contract suites build schemes with; every encoder name leads to the toy encoder."""
    from wmbench.testing.toys import ToyEncoder

    return SchemeContext(
        codec,
        key,
        load_encoder=lambda name: ToyEncoder(),
        block_length=decoding.block_length,
        max_new_tokens=decoding.max_new_tokens,
    )


def undocumented_settings(config: type[BaseModel]) -> list[str]:
    """Settings without a description: `wmbench ls` and the JSON schema would show them bare."""
    return [name for name, field in config.model_fields.items() if not field.description]
