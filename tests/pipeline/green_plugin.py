"""An inline plugin: schemes with a detector, in the words of the toy tokenizer, and null texts for them."""

import numpy as np
from pydantic import BaseModel

from wmbench import hookimpl
from wmbench.types import (
    Attacked,
    AttackInfo,
    BackboneEntry,
    DatasetInfo,
    Evidence,
    Features,
    NullText,
    SchemeInfo,
    Verdict,
    Views,
)

ME = __name__
CALLS = {"features": 0, "score": 0}
"""How many texts and how often, for tests that count."""


class GreenConfig(BaseModel):
    delta: float = 4.0


class TunedConfig(GreenConfig):
    view_count: int = 1
    law: bool = False


def green_words(key, size, view=0):
    if key is None:
        return np.arange(size) % 2 == 0
    return key.token_prf("green", 1, f"view {view}").uniforms(np.arange(size)) < 0.5


class Green:
    """A keyed half of the vocabulary is favoured. torch is imported by decoding only."""

    views = 1

    def __init__(self, config, context):
        self.config, self.key, self.size = config, context.key, context.codec.size

    @hookimpl
    def decode_step(self, step):
        import torch

        logits = step.logits()
        bonus = torch.zeros(logits.shape[1])
        bonus[: self.size] = torch.from_numpy(green_words(self.key, self.size) * self.config.delta)
        return step.commit(logits + bonus)

    @hookimpl
    def score(self, features, key, context):
        CALLS["score"] += 1
        scores = np.zeros((len(features), self.views))
        evidence = []
        for view in range(self.views):
            green = green_words(key, self.size, view)
            for i in range(len(features)):
                hits = green[features.of(i)]
                scores[i, view] = (hits - 0.5).sum() / max(1, len(hits)) ** 0.5
        for i in range(len(features)):
            hits = green_words(key, self.size)[features.of(i)]
            evidence.append({"view 0": tuple(Evidence(t, t + 1, float(h) - 0.5) for t, h in enumerate(hits))})
        names = tuple(f"view {view}" for view in range(self.views))
        return Views(names, scores, tuple(evidence) if context.evidence else None)


class Wide(Green):
    """Four views, so that levels are harder to reach."""

    views = 4


class Broken(Green):
    @hookimpl
    def decode_step(self, step):
        raise ValueError("out of ink")


class OwnFeatures(Green):
    """Counts the texts whose features it computes."""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.codec = context.codec

    @hookimpl
    def features(self, texts):
        CALLS["features"] += len(texts)
        ids = [np.asarray(tokens, dtype=np.int16) for tokens in self.codec.encode_batch(texts)]
        return Features.pack(ids, [len(tokens) for tokens in ids])


class Moody:
    """Raises on one text."""

    def __init__(self, config):
        pass

    @hookimpl
    def attack(self, texts, context):
        if any(item.id == "toy-0002" for item in texts):
            raise ValueError("not this one")
        return [Attacked(item.text) for item in texts]


class Strike:
    """Fails on null texts while it is on strike."""

    on = True

    def __init__(self, config):
        pass

    @hookimpl
    def attack(self, texts, context):
        refused = [Strike.on and item.id.startswith("salad-") and int(item.id[-1]) < 5 for item in texts]
        return [
            Attacked(None, "on strike") if no else Attacked(item.text) for item, no in zip(texts, refused, strict=True)
        ]


class Refuse:
    """Fails on every null text."""

    def __init__(self, config):
        pass

    @hookimpl
    def attack(self, texts, context):
        return [Attacked(None, "no") if t.id.startswith("salad-") else Attacked(t.text + " w9") for t in texts]


class Tuned(OwnFeatures):
    """Says which settings concern the texts, and which the detector."""

    @property
    def views(self):
        return self.config.view_count

    @hookimpl
    def detect(self, views, calibration, context):
        if not self.config.law:
            return None
        return [Verdict(0.5, float(row[0]), False, context.alpha, "view 0", "law") for row in views.scores]


def salad(argument, limit):
    """Documents of two texts each, 10 to 90 words."""
    for number in range(limit):
        if argument and number >= int(argument):
            return
        draw = np.random.default_rng(number)
        words = " ".join(f"w{i}" for i in draw.integers(3, 61, draw.integers(10, 91)))
        yield NullText(f"salad-{number}", words, "salad", document=f"document-{number // 2}")


@hookimpl
def register_schemes():
    config = f"{ME}:GreenConfig"
    return [
        SchemeInfo("green", "test", f"{ME}:Green", config, alg_id="test.green.1"),
        SchemeInfo("fixed", "test", f"{ME}:Green", config, alg_id="test.fixed.1", key_use="fixed"),
        SchemeInfo("wide", "test", f"{ME}:Wide", config, alg_id="test.wide.1"),
        SchemeInfo("broken", "test", f"{ME}:Broken", config, alg_id="test.broken.1"),
        SchemeInfo("own", "test", f"{ME}:OwnFeatures", config, alg_id="test.own.1"),
        SchemeInfo("declared", "test", f"{ME}:OwnFeatures", config, "test.declared.1", feature_settings=frozenset()),
        SchemeInfo(
            "tuned",
            "test",
            f"{ME}:Tuned",
            f"{ME}:TunedConfig",
            alg_id="test.tuned.1",
            decoding_only=frozenset({"delta"}),
            detection_only=frozenset({"view_count", "law"}),
            sweeps={"strength": {"delta": [0.0, 4.0]}, "guidance": {"decoding.guidance": [1.0]}},
        ),
    ]


@hookimpl
def register_attacks():
    return [
        AttackInfo("moody", "raises on one text", f"{ME}:Moody"),
        AttackInfo("refuse", "fails on all null texts", f"{ME}:Refuse"),
        AttackInfo("strike", "fails on null texts", f"{ME}:Strike"),
    ]


@hookimpl
def register_datasets():
    return [
        DatasetInfo("salad", "word salad", f"{ME}:salad", kind="nulls"),
        DatasetInfo("salad:", "so many texts of word salad", f"{ME}:salad", kind="nulls"),
    ]


@hookimpl
def register_backbones():
    codec = "wmbench.lab.codec:lab_codec"
    return [BackboneEntry("tokens-only", "no model, only a tokenizer", "nowhere:nothing", codec=codec)]
