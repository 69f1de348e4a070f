"""Everything wmbench ships keeps the contract it asks of third parties."""

from __future__ import annotations

import wmbench_attacks
import wmbench_none

from wmbench.runtime.backbone import Backbone
from wmbench.runtime.backbones.tiny import TinyBackbone, TinyConfig
from wmbench.testing import AttackContract, BackboneContract, EncoderContract, SchemeContract, ToyEncoder
from wmbench.types import Encoder


class TestNone(SchemeContract):
    info = wmbench_none.register_schemes()[0]

    def test_is_clean_decoding(self, backbone: Backbone) -> None:
        from wmbench.testing import run_scheme, toy_samples

        assert run_scheme(self.make(backbone), backbone, toy_samples(6)) == self.clean_generations(backbone, 6)


class TestIdentity(AttackContract):
    info = next(info for info in wmbench_attacks.register_attacks() if info.name == "identity")


class TestTinyFull(BackboneContract):
    def make_backbone(self) -> Backbone:
        return TinyBackbone(TinyConfig(attention="full"))


class TestTinyBlock(BackboneContract):
    def make_backbone(self) -> Backbone:
        return TinyBackbone(TinyConfig(attention="block"))


class TestTinyBlockFromPrompt(BackboneContract):
    """Blocks that straddle the border of prompt and answer, as in LLaDA2.0."""

    def make_backbone(self) -> Backbone:
        return TinyBackbone(TinyConfig(attention="block", block_origin="prompt"))


class TestTinyShifted(BackboneContract):
    """The state of one column predicts the next, as in Dream."""

    def make_backbone(self) -> Backbone:
        return TinyBackbone(TinyConfig(attention="full", shift=1))


class TestToyEncoder(EncoderContract):
    def make_encoder(self) -> Encoder:
        return ToyEncoder()
