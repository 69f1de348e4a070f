"""Attacks, backbones and encoders with one fault each, paired with the contract test that must notice it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wmbench import hookimpl
from wmbench.runtime.backbone import Windows
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig, ToyCodec
from wmbench.testing.toys import ToyEncoder
from wmbench.types import Attacked, AttackInfo, AttackInput

# --- attacks ---------------------------------------------------------------------------------------------------


class Attack:
    """Changes nothing, and does not say so."""

    preserves = "little"

    def __init__(self, config: None) -> None:
        self.calls = 0

    def one(self, item: AttackInput) -> Attacked:
        return Attacked(item.text)

    @hookimpl
    def attack(self, texts: Sequence[AttackInput]) -> list[Attacked]:
        return [self.one(item) for item in texts]


class AlwaysFails(Attack):
    def one(self, item: AttackInput) -> Attacked:
        return Attacked(None, "out of service")


class GlobalDice(Attack):
    def one(self, item: AttackInput) -> Attacked:
        return Attacked(f"{item.text} {random.random()}")


class NumbersItsTexts(Attack):
    def one(self, item: AttackInput) -> Attacked:
        self.calls += 1
        return Attacked(f"{self.calls} {item.text}")


class DropsEmpty(Attack):
    @hookimpl
    def attack(self, texts: Sequence[AttackInput]) -> list[Attacked]:
        return [self.one(item) for item in texts][1:]


class FirstWord(Attack):
    def one(self, item: AttackInput) -> Attacked:
        return Attacked(item.text.split()[0])


class HalfEmoji(Attack):
    def one(self, item: AttackInput) -> Attacked:
        return Attacked(item.text + "\ud83d")


class SilentFailure(Attack):
    def one(self, item: AttackInput) -> Attacked:
        return Attacked(item.text if item.text.strip() else None)


class SkipsTheShort(Attack):
    def one(self, item: AttackInput) -> Attacked:
        return Attacked(item.text.upper() if len(item.text) > 150 else item.text)


class NoControl(Attack):
    preserves = "everything"

    def one(self, item: AttackInput) -> Attacked:
        return Attacked(item.text + ".")


def attack_info(attack: type[Attack]) -> AttackInfo:
    path = f"{__name__}:{attack.__name__}"
    return AttackInfo(attack.__name__, "a broken attack", path, preserves=attack.preserves)


BROKEN_ATTACKS = [
    (test, attack_info(attack))
    for test, attack in [
        ("test_attacks_ordinary_texts", AlwaysFails),
        ("test_changes_the_text", Attack),
        ("test_changes_the_text", SkipsTheShort),
        ("test_changes_the_text", NoControl),
        ("test_is_deterministic", GlobalDice),
        ("test_order_does_not_matter", NumbersItsTexts),
        ("test_one_result_per_text", DropsEmpty),
        ("test_survives_hard_texts", FirstWord),
        ("test_survives_hard_texts", HalfEmoji),
        ("test_survives_hard_texts", SilentFailure),
    ]
]

# --- encoders --------------------------------------------------------------------------------------------------


class LongVectors(ToyEncoder):
    def encode(self, texts: Sequence[str]) -> Any:
        return 2 * super().encode(texts)


class CannotEncodeNothing(ToyEncoder):
    def encode(self, texts: Sequence[str]) -> Any:
        return super().encode(texts) if texts else np.empty(0, dtype=np.float32)


class Noisy(ToyEncoder):
    def encode(self, texts: Sequence[str]) -> Any:
        vectors = super().encode(texts) + np.random.default_rng().normal(0, 1e-4, (len(texts), 16))
        return vectors.astype(np.float32)


class Centred(ToyEncoder):
    def encode(self, texts: Sequence[str]) -> Any:
        vectors = super().encode(texts)
        return vectors - vectors.mean(axis=0)


class Constant(ToyEncoder):
    def encode(self, texts: Sequence[str]) -> Any:
        return np.full((len(texts), 16), 0.25, dtype=np.float32)


class Anonymous(ToyEncoder):
    fingerprint = ""


BROKEN_ENCODERS = [
    ("test_gives_unit_vectors", LongVectors),
    ("test_no_texts_no_rows", CannotEncodeNothing),
    ("test_is_deterministic", Noisy),
    ("test_texts_do_not_influence_each_other", Centred),
    ("test_tells_texts_apart", Constant),
    ("test_has_an_identity", Anonymous),
]

# --- backbones -------------------------------------------------------------------------------------------------


class Block(TinyBackbone):
    def __init__(self) -> None:
        super().__init__(TinyConfig(attention="block"))


class LossyCodec(TinyBackbone):
    def __init__(self) -> None:
        super().__init__()
        self.codec.decode = lambda ids: " ".join(f"word{i}" for i in ids)  # type: ignore[method-assign]


class SpecialText(TinyBackbone):
    def __init__(self) -> None:
        super().__init__()
        self.codec = _Chatty(self.codec.size)


class _Chatty(ToyCodec):
    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(f"w{i}" for i in ids)


class NothingBanned(TinyBackbone):
    def __init__(self) -> None:
        super().__init__()
        self.banned_ids = (self.mask_id,)


class HalfPrecision(TinyBackbone):
    def logits(self, states: Tensor) -> Tensor:
        return super().logits(states).half()


class BatchNorm(TinyBackbone):
    """States are centred over the batch."""

    def hidden(self, windows: Windows) -> Any:
        states, prefixes = super().hidden(windows)
        return states - 0.1 * states.mean(dim=0, keepdim=True), prefixes


class SeesPadding(TinyBackbone):
    def hidden(self, windows: Windows) -> Any:
        blind = Windows(
            windows.ids, windows.positions, torch.zeros_like(windows.blocks), windows.lengths, windows.groups
        )
        return super().hidden(blind)


class StalePrefix(Block):
    """Forgets where a continuation stands: positions restart at zero behind the cache."""

    def hidden(self, windows: Windows) -> Any:
        positions = windows.positions - windows.positions[:, :1]
        return super().hidden(Windows(windows.ids, positions, windows.blocks, windows.lengths, windows.groups))


class SeesTheFuture(Block):
    def hidden(self, windows: Windows) -> Any:
        blocks = windows.blocks.clone()
        blocks[blocks < 2**31] = 0
        return super().hidden(Windows(windows.ids, windows.positions, blocks, windows.lengths, windows.groups))


BROKEN_BACKBONES = [
    ("test_codec_round_trip", LossyCodec),
    ("test_codec_is_consistent", SpecialText),
    ("test_banned_ids", NothingBanned),
    ("test_logits_have_their_shape", HalfPrecision),
    ("test_batch_does_not_change_logits", BatchNorm),
    ("test_padding_does_not_change_logits", SeesPadding),
    ("test_cached_prefix_equals_recomputation", StalePrefix),
    ("test_later_blocks_do_not_change_earlier_logits", SeesTheFuture),
]
