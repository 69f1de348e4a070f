"""The contract of a sentence encoder. Subclass it and say how yours is made:

class TestMine(EncoderContract):
    def make_encoder(self): return MyEncoder()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from wmbench.types import Encoder


class EncoderContract:
    """What every encoder must keep."""

    texts: ClassVar[Sequence[str]] = (
        "The river rises in spring.",
        "Save a little every month, because interest earns interest.",
        "word",
        "",
        "مرحبا 👩‍👩‍👧‍👦 e\u0301",
        "long " * 2_000,
    )
    tolerance: ClassVar[float] = 1e-5
    """How much a row may depend on its neighbours (rounding)."""

    def make_encoder(self) -> Encoder:
        raise NotImplementedError("say how your encoder is made")

    def test_gives_unit_vectors(self) -> None:
        encoder = self.make_encoder()
        vectors = encoder.encode(self.texts)
        assert vectors.shape == (len(self.texts), encoder.dimension)
        assert vectors.dtype == np.float32
        assert np.isfinite(vectors).all()
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-4)

    def test_no_texts_no_rows(self) -> None:
        encoder = self.make_encoder()
        assert encoder.encode([]).shape == (0, encoder.dimension)

    def test_is_deterministic(self) -> None:
        """Bit by bit, also in a fresh instance."""
        encoder = self.make_encoder()
        first = encoder.encode(self.texts)
        assert np.array_equal(first, encoder.encode(self.texts))
        assert np.array_equal(first, self.make_encoder().encode(self.texts))

    def test_texts_do_not_influence_each_other(self) -> None:
        encoder = self.make_encoder()
        together = encoder.encode(self.texts)
        alone = np.concatenate([encoder.encode([text]) for text in self.texts])
        reverse = encoder.encode(self.texts[::-1])[::-1]
        np.testing.assert_allclose(alone, together, atol=self.tolerance)
        np.testing.assert_allclose(reverse, together, atol=self.tolerance)

    def test_tells_texts_apart(self) -> None:
        vectors = self.make_encoder().encode(self.texts[:3])
        similarity = vectors @ vectors.T
        assert similarity[np.triu_indices(3, 1)].max() < 0.999, "different texts have the same vector"

    def test_has_an_identity(self) -> None:
        """Cached features carry it."""
        fingerprint = self.make_encoder().fingerprint
        assert fingerprint
        assert fingerprint == self.make_encoder().fingerprint
