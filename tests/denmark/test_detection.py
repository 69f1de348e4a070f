"""Features, scores, evidence and verdicts; and that a new key needs no encoder."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from wmbench_denmark.config import DenMarkConfig
from wmbench_denmark.keys import SCHEME, VERSION, unit_vectors
from wmbench_denmark.scheme import DenMark

from wmbench.detection import Calibration
from wmbench.errors import CalibrationError, ConfigError
from wmbench.runtime.backbones.tiny import ToyCodec
from wmbench.semantics.channels import secret_channels
from wmbench.semantics.scan import _shrunk
from wmbench.testing import ToyEncoder, toy_key, toy_texts
from wmbench.types import Encoder, Features, SchemeContext, TextContext, Views

CODEC = ToyCodec(61)
KEY = toy_key("detection")
TEXTS = toy_texts([300, 40, 25, 24, 7, 1, 0, 131], seed=2)


def make(encoder: Encoder | None = None, **settings: Any) -> DenMark:
    chosen = encoder or ToyEncoder()
    return DenMark(DenMarkConfig(**settings), SchemeContext(CODEC, load_encoder=lambda name: chosen))


def scored(scheme: DenMark, texts: Sequence[str] = TEXTS, evidence: bool = False) -> Views:
    return scheme.score(scheme.features(texts), KEY, TextContext(evidence=evidence))


def plain_score(text: str, size: int) -> float:
    """S_m' by its definition."""
    ids, encoder = CODEC.encode(text), ToyEncoder()
    units = [ids[at : at + size] for at in range(0, len(ids), size)]
    directions, signs = secret_channels(KEY, SCHEME, VERSION, np.arange(len(units)), 2, encoder.dimension)
    embeddings = encoder.encode([CODEC.decode(unit) for unit in units])
    scores = [np.mean([signs[b, j] * (embeddings[b] @ directions[b, j]) for j in range(2)]) for b in range(len(units))]
    return float(np.mean(scores)) if scores else 0.0


def test_scores_equal_their_definition() -> None:
    """Texts longer and shorter than a unit, one token, no token: all have a defined score."""
    views = scored(make())
    assert views.names == tuple(str(size) for size in range(12, 38))
    expected = [[plain_score(text, size) for size in range(12, 38)] for text in TEXTS]
    np.testing.assert_allclose(views.scores, expected, atol=2e-4)  # embeddings are kept as fp16
    assert (views.scores[6] == 0).all(), "a text without units scores 0"
    assert np.ptp(views.scores[5]) == 0, "one token is the same unit at every size"


def test_texts_are_scored_by_themselves() -> None:
    """To the last bit: a text that is also among the nulls must tie with itself."""
    scheme = make()
    together = scored(scheme).scores
    for i, text in enumerate(TEXTS):
        assert (scored(scheme, [text]).scores[0] == together[i]).all()


def test_fixed_size_is_one_column_of_the_scan() -> None:
    fixed, scan = scored(make(detector="fixed", unit_size=20)), scored(make())
    assert fixed.names == ("20",)
    assert (fixed.scores[:, 0] == scan.scores[:, scan.names.index("20")]).all()


def test_reference_variant_reads_a_prefix() -> None:
    """12 units of the first 300 tokens, whatever comes behind."""
    scheme = make(units="reference")
    beginning = toy_texts([300], seed=9)[0]
    longer = f"{beginning} {toy_texts([77], seed=10)[0]}"
    views = scored(scheme, [beginning, longer])
    assert (views.scores[0] == views.scores[1]).all()
    everything = scored(make(), [beginning])
    same = [int(name) >= 25 for name in views.names]  # 12 units of 25 cover 300 tokens
    assert ((views.scores[0] == everything.scores[0]) == same).all()


def test_evidence_adds_up_to_the_score() -> None:
    views = scored(make(), evidence=True)
    assert views.evidence is not None
    for i, by_size in enumerate(views.evidence):
        for column, name in enumerate(views.names):
            parts, size = by_size[name], int(name)
            assert sum(part.weight for part in parts) == pytest.approx(views.scores[i, column], abs=1e-9)
            length = len(CODEC.encode(TEXTS[i]))
            assert [(part.start, part.end) for part in parts] == [
                (at, min(at + size, length)) for at in range(0, length, size)
            ]
    assert views.evidence[0]["25"][3].label == "unit 3 of size 25"


class CountingEncoder(ToyEncoder):
    calls = 0

    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.calls += 1
        return super().encode(texts)


def test_a_new_key_needs_no_encoder() -> None:
    encoder = CountingEncoder()
    scheme = make(encoder)
    scheme.features([])  # loads the encoder and tries it
    before = encoder.calls
    features = scheme.features(TEXTS)
    assert encoder.calls == before + 1, "all sizes of all texts in one batch"
    assert features.values.dtype == np.float16
    scores = [scheme.score(features, toy_key(f"key {i}"), TextContext()).scores for i in range(3)]
    assert encoder.calls == before + 1
    assert not np.array_equal(scores[0], scores[1])


def test_half_precision_is_read_exactly() -> None:
    """Every finite fp16 number, subnormal ones and zeros included."""
    half = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = half[np.isfinite(half)][None]
    assert (_shrunk(finite) * np.float32(2.0**112) == finite.astype(np.float32)).all()


class BrokenEncoder(ToyEncoder):
    def encode(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return super().encode(texts) * np.float32("nan")


def test_vectors_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ConfigError, match="no numbers"):
        make(BrokenEncoder()).features(TEXTS)


def test_detection_does_not_import_torch() -> None:
    code = (
        "import sys; from wmbench_denmark.scheme import DenMark; from wmbench_denmark.config import DenMarkConfig; "
        "from wmbench.types import *; from wmbench.testing import ToyEncoder, toy_key; import numpy as np; "
        "s = DenMark(DenMarkConfig(), None); f = Features.pack([np.ones((26, 4), np.float16)], [5]); "
        "s.score(f, toy_key(), TextContext()); assert 'torch' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


# --- keys ----------------------------------------------------------------------------------------------------------


def test_unit_vectors_do_not_depend_on_how_many_are_asked_for() -> None:
    for prf in ("hmac", "official"):
        for channels in (1, 3):
            config = DenMarkConfig(prf=prf, channels=channels)
            growing = unit_vectors(config, KEY, 20)
            few = growing.first(3)[:3].copy()
            assert (growing.first(40)[:3] == few).all()
            assert (unit_vectors(config, KEY, 20).first(40)[:40] == growing.first(40)[:40]).all()


def test_secret_channels_are_directions_and_fair_signs() -> None:
    directions, signs = secret_channels(KEY, SCHEME, VERSION, np.arange(200), 2, 64)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=-1), 1)
    assert set(np.unique(signs)) == {-1, 1}
    assert abs(signs.mean()) < 0.2
    similarity = directions.reshape(400, 64) @ directions.reshape(400, 64).T - np.eye(400)
    assert np.abs(similarity).max() < 0.8, "two channels share a direction"


# --- verdicts ------------------------------------------------------------------------------------------------------


def test_min_p_is_a_labelled_option() -> None:
    context = TextContext(alpha=0.05, evidence=True)
    scheme = make(scan_rule="min_p")
    nulls = scored(scheme, toy_texts([60] * 50, seed=11))
    calibration = Calibration(nulls.scores, nulls.names)
    views = scored(scheme, evidence=True)
    verdicts = scheme.detect(views, calibration, context)
    assert verdicts is not None
    assert [v.p_value for v in verdicts] == calibration.min_p(views.scores).tolist()
    assert all(v.detected == (v.p_value <= 0.05) for v in verdicts)
    assert all("min-p" in v.method and v.details["p_bonferroni"] >= v.p_value for v in verdicts)
    assert verdicts[0].evidence
    with pytest.raises(CalibrationError, match="can never be reached"):
        scheme.detect(views, calibration, TextContext(alpha=0.001))
    with pytest.raises(CalibrationError, match="different views"):
        scheme.detect(scored(make(detector="fixed")), calibration, context)
    assert make().detect(views, calibration, context) is None, "the paper's rule is the host's"


def test_scores_refuse_foreign_features() -> None:
    scheme = make(dimension=16)
    narrow = Features.pack([np.ones((26, 4), np.float16)], [5])
    with pytest.raises(ConfigError, match="present settings"):
        scheme.score(narrow, KEY, TextContext())
    with pytest.raises(ConfigError, match="present settings"):
        scheme.score(make(detector="fixed").features(TEXTS), KEY, TextContext())
    tokens = Features.pack([np.arange(5)], [5])
    with pytest.raises(ConfigError, match="present settings"):
        scheme.score(tokens, KEY, TextContext())
    with pytest.raises(ConfigError, match="needs a key"):
        scheme.score(scheme.features(TEXTS), None, TextContext())
