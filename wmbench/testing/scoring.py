"""The half of a scheme's contract that concerns detection; skipped for schemes without the hook `score`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import pytest

from wmbench.detection import Calibration, needed_nulls
from wmbench.errors import WmbenchError
from wmbench.host import load_attribute
from wmbench.keys import SecretKey
from wmbench.run_hooks import RunHooks
from wmbench.runtime.backbone import Backbone
from wmbench.runtime.loop import decode, make_engine
from wmbench.runtime.settings import Decoding
from wmbench.testing.harness import SHORT, build, hooks_of, run_scheme, scheme_context, score_texts
from wmbench.testing.toys import toy_key, toy_samples, toy_texts
from wmbench.types import Features, Generation, KeyUse, Sample, SchemeInfo, TextContext

Floats = npt.NDArray[np.float64]
_CONTRACT_KEY = toy_key("contract")


class ScoringContract:
    """Features, scores and verdicts of one scheme."""

    info: ClassVar[SchemeInfo]
    """What the plugin registers."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """Configuration to test with; the published defaults may be too weak for such short answers."""
    long: ClassVar[Decoding] = SHORT.model_copy(update={"max_new_tokens": 40})
    """Decoding of the texts on which the mark must be found."""
    smallest_effect: ClassVar[float] = 3.0
    """Standard errors by which marked texts must outscore clean ones."""
    silence: ClassVar[float] = 5.0
    """Standard errors (over keys) by which mean scores may differ where there is no mark of the key."""

    @staticmethod
    def samples(count: int) -> list[Sample]:
        """So many prompts."""
        return toy_samples(count)

    @staticmethod
    def texts(lengths: Sequence[int], seed: int) -> list[str]:
        """Texts that nobody marked, of about these numbers of tokens."""
        return toy_texts(lengths, seed)

    def make(self, backbone: Backbone, key: SecretKey | None = _CONTRACT_KEY, decoding: Decoding = SHORT) -> Any:
        """The scheme under test, built from its import paths."""
        return build(self.info, self.settings, scheme_context(backbone.codec, key, decoding))

    def clean_generations(self, backbone: Backbone, count: int, decoding: Decoding = SHORT) -> list[Generation]:
        return _clean_generations(cast(Hashable, backbone), count, decoding, self.samples)

    def detector(self, backbone: Backbone) -> Any:
        """The scheme as a detector builds it: without a key, which `score` is handed. Skips schemes that have none."""
        scheme = self.make(backbone, key=None)
        if "score" not in hooks_of(scheme).implemented:
            pytest.skip("has no detector")
        return scheme

    @property
    def key_use(self) -> KeyUse:
        """Of the configuration under test, which may put a constant in place of the secret."""
        config = load_attribute(self.info.config)(**self.settings) if self.info.config else None
        found: KeyUse = getattr(config, "key_use", self.info.key_use)
        return found

    def key(self, label: str) -> SecretKey | None:
        return toy_key(label) if self.key_use == "secret" else None

    def marked_texts(self, backbone: Backbone, label: str, count: int = 8) -> list[str]:
        scheme = self.make(backbone, self.key(label), self.long)
        return [g.text for g in run_scheme(scheme, backbone, self.samples(count), self.long)]

    def clean_texts(self, backbone: Backbone, count: int) -> list[str]:
        return [g.text for g in self.clean_generations(backbone, count, self.long)]

    def scores(self, backbone: Backbone, texts: Sequence[str], label: str) -> Floats:
        return score_texts(self.detector(backbone), backbone.codec, texts, self.key(label)).scores

    # --- features ----------------------------------------------------------------------------------------------

    def test_prompt_is_never_scored(self, backbone: Backbone) -> None:
        """Features are those of the answer's text: the scheme that wrote it, having seen the prompts, and a detector
        that never did agree."""
        stranger, writer = self.detector(backbone), self.make(backbone)
        texts = [g.text for g in run_scheme(writer, backbone, self.samples(4))]
        own, foreign = (_features(scheme, backbone, texts) for scheme in (writer, stranger))
        assert np.array_equal(own.offsets, foreign.offsets)
        assert np.array_equal(own.values, foreign.values)

    def test_texts_do_not_influence_each_other(self, backbone: Backbone) -> None:
        """Features and scores of a text alone equal those among others: calibrations are computed in batches."""
        scheme = self.detector(backbone)
        texts = self.texts([24, 7, 31, 16], seed=3)
        together = _features(scheme, backbone, texts)
        scores = self.scores(backbone, texts, "contract")
        for i, text in enumerate(texts):
            np.testing.assert_allclose(_features(scheme, backbone, [text]).of(0), together.of(i), atol=1e-5)
            np.testing.assert_allclose(self.scores(backbone, [text], "contract")[0], scores[i], rtol=1e-4, atol=1e-5)

    def test_survives_hardly_any_text(self, backbone: Backbone) -> None:
        """Attacks may leave nothing behind. (That scores are finite is checked by the host at every call.)"""
        scores = self.scores(backbone, ["", " \n ", "w7", "one", "مرحبا 🧪"], "contract")
        assert len(scores) == 5

    # --- scores ------------------------------------------------------------------------------------------------

    def test_key_decides_the_scores(self, backbone: Backbone) -> None:
        texts = self.texts([40] * 6, seed=4)
        one, again, other = (self.scores(backbone, texts, label) for label in ("one", "one", "other"))
        assert np.array_equal(one, again), "scores of the same texts under the same key differ"
        if self.key_use == "secret":
            assert not np.array_equal(one, other), "another key gave the same scores: is the key used?"

    def test_scoring_needs_the_key(self, backbone: Backbone) -> None:
        scheme = self.detector(backbone)
        if self.key_use != "secret":
            pytest.skip("needs no key")
        with pytest.raises(WmbenchError):
            score_texts(scheme, backbone.codec, self.texts([20], 0), None)

    def test_marked_texts_score_higher(self, backbone: Backbone) -> None:
        """Averaged over keys, samples and views, in units of the standard deviation over clean texts."""
        self.detector(backbone)
        clean = self.clean_texts(backbone, 24)
        gains = []
        for label in ("a", "b", "c"):
            null = self.scores(backbone, clean, label)
            marked = self.scores(backbone, self.marked_texts(backbone, label), label)
            spread = null.std(axis=0)
            assert (spread > 0).all(), "clean texts all have the same score"
            gains.append(((marked - null.mean(axis=0)) / spread).mean(axis=1))
        gain = np.concatenate(gains)
        standard_error = np.sqrt(1 / len(gain) + 1 / len(clean))
        assert gain.mean() > self.smallest_effect * standard_error, f"mean gain {gain.mean():.2f} standard deviations"

    def test_silent_on_clean_text(self, backbone: Backbone) -> None:
        """Over many keys, clean output scores as random text of the same lengths does."""
        self._require_keys(backbone)
        clean = self.clean_texts(backbone, 24)
        random = self.texts([len(ids) for ids in backbone.codec.encode_batch(clean)], 5)
        self._assert_silent(backbone, clean, random, "clean text")

    def test_silent_under_wrong_keys(self, backbone: Backbone) -> None:
        """Over many other keys, marked texts score as clean output does."""
        self._require_keys(backbone)
        marked = self.marked_texts(backbone, "right", 24)
        self._assert_silent(backbone, marked, self.clean_texts(backbone, 24), "text with the mark of another key")

    def _require_keys(self, backbone: Backbone) -> None:
        self.detector(backbone)
        if self.key_use != "secret":
            pytest.skip("has no other keys to average over")

    def _assert_silent(self, backbone: Backbone, texts: Sequence[str], others: Sequence[str], what: str) -> None:
        """The key is the sampling unit: one key shifts all texts of a family together, which is no fault; a shift
        common to all keys is."""
        shifts = []
        for k in range(24):
            scores = self.scores(backbone, [*texts, *others], f"silence {k}")
            shifts.append(scores[: len(texts)].mean(axis=0) - scores[len(texts) :].mean(axis=0))
        standard_errors = np.std(shifts, axis=0, ddof=1) / np.sqrt(len(shifts))
        z = np.mean(shifts, axis=0) / np.maximum(standard_errors, 1e-12)
        assert np.abs(z).max() <= self.silence, f"{what} deviates by {np.abs(z).max():.1f} standard errors"

    # --- verdicts ----------------------------------------------------------------------------------------------

    def test_verdicts(self, backbone: Backbone) -> None:
        """p in (0, 1] (checked by the host), decisions at alpha, and a ranking score that falls as p rises."""
        context = TextContext(alpha=0.2, evidence=True)
        hooks = hooks_of(self.detector(backbone), codec=backbone.codec)
        texts = [*self.marked_texts(backbone, "contract", 4), *self.texts([40] * 4, seed=6)]
        views = hooks.score(hooks.features(texts, context), self.key("contract"), context)
        nulls = self.texts([40] * needed_nulls(context.alpha, len(views.names)), seed=7)
        null_views = hooks.score(hooks.features(nulls, context), self.key("contract"), context)
        verdicts = hooks.detect(views, Calibration(null_views.scores, null_views.names), context)
        for verdict in verdicts:
            assert verdict.alpha == context.alpha
            assert verdict.detected == (verdict.p_value <= context.alpha)
            assert verdict.view in views.names
            assert np.isfinite(verdict.score)
        ranked = sorted(verdicts, key=lambda verdict: verdict.score)
        p_values = [verdict.p_value for verdict in ranked]
        assert p_values == sorted(p_values, reverse=True), "a larger ranking score has a larger p-value"


@lru_cache(maxsize=32)
def _clean_generations(
    backbone: Hashable, count: int, decoding: Decoding, samples: Callable[[int], list[Sample]]
) -> list[Generation]:
    finished = decode(samples(count), make_engine(cast(Backbone, backbone), decoding), decoding)
    return sorted(finished, key=lambda generation: generation.sample.index)


def _features(scheme: object, backbone: Backbone, texts: Sequence[str]) -> Features:
    hooks: RunHooks = hooks_of(scheme, codec=backbone.codec)
    return hooks.features(texts, TextContext())
