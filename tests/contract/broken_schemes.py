"""Schemes with one fault each: the contract must notice every one of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import torch
from pydantic import BaseModel
from toy_schemes import Bias, GreenConfig, Remask, green_words

from wmbench import hookimpl
from wmbench.keys import SecretKey
from wmbench.runtime.step import Step
from wmbench.testing.toys import toy_key
from wmbench.types import Commit, Features, Sample, SchemeContext, TextContext, Verdict, Views


class BareConfig(BaseModel):
    delta: float = 1.0


class GlobalRandomness(Bias):
    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        return step.commit(step.logits() + torch.randn(step.logits().shape[1]))


class IgnoresTheSeed(Bias):
    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        columns = [int(row.masked[0]) for row in step.rows]
        return Commit.of([(r, c, 3 + c % 50) for r, c in enumerate(columns)])


class MeanOfTheBatch(Bias):
    """Centres the logits over the batch: a row depends on its neighbours."""

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        logits = step.logits()
        return step.commit(logits - 2 * logits.mean(0).nan_to_num(neginf=0.0))


class CountsItsSteps(Bias):
    """Changes while it is used."""

    steps = 0

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        self.steps += 1
        return step.commit(step.logits() + torch.eye(step.engine.backbone.vocab_size)[self.steps % 50 + 3] * 5)


class HashOfAString(Bias):
    """The built-in hash of a string differs from process to process."""

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        favourites = [3 + hash(f"favourite {i}") % 50 for i in range(8)]  # so many never agree by chance
        return step.commit(step.logits() + torch.eye(step.engine.backbone.vocab_size)[favourites].amax(0) * 5)


class EmitsTheMask(Bias):
    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        native = step.commit()
        return Commit(native.rows, native.columns, np.full_like(native.tokens, step.engine.backbone.mask_id))


class AlwaysEos(Bias):
    """Ignores that the run forbids the end of text."""

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        native = step.commit()
        return Commit(native.rows, native.columns, np.zeros_like(native.tokens))


class NothingAfterEos(Bias):
    """Fails on what `eos: stop` makes ragged: it wants every row at the same step."""

    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        if len({row.step for row in step.rows}) > 1 or len(step.rows) not in (1, 8):
            raise RuntimeError("ragged")
        return step.commit()


class IgnoresItsKey(Bias):
    def __init__(self, config: GreenConfig, context: SchemeContext) -> None:
        super().__init__(config, context)
        self.key = toy_key("always the same")

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        return super().score(features, self.key, context)


class UnmarkedWithoutKey(Bias):
    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        return step.commit() if self.key is None else super().decode_step(step)


class LeavesNoMark(Bias):
    @hookimpl
    def decode_step(self, step: Step) -> Commit:
        return step.commit()


class ScoresThePrompt(Remask):
    """Remembers prompts and prepends the last one to what it scores."""

    prompt = ""

    @hookimpl
    def begin(self, sample: Sample) -> dict[str, int]:
        self.prompt = sample.prompt
        return super().begin(sample)

    @hookimpl
    def features(self, texts: Sequence[str]) -> Features:
        ids = [np.array([len(word) for word in f"{self.prompt} {text}".split()], dtype=np.int64) for text in texts]
        return Features.pack(ids, [len(part) for part in ids])


class RanksInsideTheBatch(Bias):
    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        views = super().score(features, key, context)
        return Views(views.names, views.scores - views.scores.mean())


class DividesByLength(Bias):
    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        with np.errstate(all="ignore"):
            views = super().score(features, key, context)
            return Views(views.names, views.scores / features.lengths[:, None])


class Zeros(Bias):
    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        green_words(key, self.size)
        return Views(("green",), np.zeros((len(features), 1)))


class SmallerMeansMarked(Bias):
    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        views = super().score(features, key, context)
        return Views(views.names, -views.scores)


class ScoresWithoutKey(Bias):
    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        return super().score(features, key or toy_key("default"), context)


class LikesTheModel(Bias):
    """Detects the backbone's favourite words under every key: clean text looks marked."""

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        repeats = [1 - len(np.unique(features.of(i))) / max(1, features.lengths[i]) for i in range(len(features))]
        views = super().score(features, key, context)
        return Views(views.names, views.scores + 100 * np.array(repeats)[:, None])


class HalfOfTheMarkIsPublic(Bias):
    """The lower half of the vocabulary counts as green under every key, and is favoured."""

    def green(self, step: Step) -> np.ndarray:
        return super().green(step) | (np.arange(step.engine.backbone.vocab_size) < self.size // 2)

    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        low = [np.mean(features.of(i) < self.size // 2) if features.lengths[i] else 0.5 for i in range(len(features))]
        views = super().score(features, key, context)
        return Views(views.names, views.scores + 20 * np.array(low)[:, None])


class PValueOfZero(Bias):
    @hookimpl
    def detect(self, views: Views, context: TextContext) -> list[Verdict]:
        return [Verdict(0.0, 1.0, True, context.alpha, "green", "wishful") for _ in views.scores]


class RanksByP(Bias):
    """A ranking score that falls when the evidence rises."""

    @hookimpl
    def detect(self, views: Views, context: TextContext) -> list[Verdict]:
        p = 1 / (1 + np.exp(views.scores[:, 0]))
        return [Verdict(float(q), float(q), bool(q <= context.alpha), context.alpha, "green", "logistic") for q in p]


class DrawsItsScores(Bias):
    @hookimpl
    def score(self, features: Features, key: SecretKey | None, context: TextContext) -> Views:
        views = super().score(features, key, context)
        return Views(views.names, views.scores + random.random())
