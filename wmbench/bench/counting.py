"""What a scheme costs per token on a backbone, counted without running the backbone.

How many canvases are forwarded follows from the scheme, the schedule and the shape of the attention. So it is counted
on a tiny random model of the same shape, which takes seconds where the real one would take hours.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from wmbench.bench.plan import RunPlan
from wmbench.host import load_attribute
from wmbench.keys import SecretKey
from wmbench.run_hooks import RunHooks
from wmbench.runtime.backbone import Attention
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.step import Step
from wmbench.testing.toys import ToyEncoder
from wmbench.types import Commit, Encoder, Sample, SchemeContext

COUNTED_TOKENS = 25
PROMPT_TOKENS = 64
_KEY = SecretKey.from_hex("5a" * 32)
"""Marks nothing but the stand-in, so it is no secret; always the same, so that the same plan costs the same."""


@dataclass(frozen=True, slots=True)
class TokenCost:
    """Per token of the answer. Random weights hardly ever propose the same candidate twice, and the runtime forwards
    equal candidates once: a real model costs this much or less."""

    forwards: float
    """Canvases through the trunk."""
    positions: float
    """Positions through the trunk."""
    head_rows: float
    """Positions through the LM head."""


class _Enough(Exception):
    pass


def count_cost(plan: RunPlan, attention: Attention, shift: int) -> TokenCost:
    """Decode the first tokens of an answer of the planned length under the planned scheme."""
    decoding = plan.decoding
    room = PROMPT_TOKENS + decoding.max_new_tokens
    stand_in = TinyBackbone(TinyConfig.model_validate({"shift": shift, "max_length": room}))
    stand_in.attention = attention
    context = SchemeContext(
        stand_in.codec,
        _KEY if plan.key_use == "secret" else None,
        lambda _: _encoder(plan),
        decoding.block_length,
        decoding.max_new_tokens,
    )
    entry = plan.scheme.entry
    scheme = load_attribute(entry.info.factory, entry.plugin)(plan.scheme.settings, context)
    hooks = RunHooks(scheme, entry.plugin, codec=stand_in.codec)
    hooks.require("decode_step", "generate")
    engine = make_engine(stand_in, decoding)
    filled = 0

    def counted(step: Step) -> Commit:
        nonlocal filled
        filled = len(step.rows[0].generated) - len(step.rows[0].masked)
        if filled >= COUNTED_TOKENS:
            raise _Enough
        return hooks.decode_step(step)

    sample = Sample("cost", " ".join(["w7"] * PROMPT_TOKENS))
    with suppress(_Enough):
        done = list(decode([sample], engine, decoding, counted, hooks.begin, batch_size=1))
        filled = len(done[0].token_ids)
    counters = engine.counters
    return TokenCost(counters.forward_rows / filled, counters.forward_tokens / filled, counters.head_rows / filled)


def _encoder(plan: RunPlan) -> Encoder:
    """How many forwards there are does not depend on what the encoder knows, only on the width it promises."""
    encoder = ToyEncoder()
    encoder.dimension = getattr(plan.scheme.settings, "dimension", None) or encoder.dimension
    return encoder
