"""How many tokens it takes. p-values of the first tokens of every kept sample (`lengths.jsonl`).

A short text must be judged among short texts. Below the shortest null text the calibration texts are cut to the same
number of tokens and scored anew (once for all data sets); from there on the run's own calibration applies.
"""

from __future__ import annotations

from wmbench.bench.calibrating import make_calibration
from wmbench.bench.derived import digest
from wmbench.bench.jsonl import JsonlFile, Record, encode_line
from wmbench.bench.stages.base import Run, Tally
from wmbench.bench.stages.calibrate import FILE as CALIBRATION
from wmbench.bench.stages.calibrate import read_calibration
from wmbench.bench.textset import SAMPLES, TextSet, kept_samples
from wmbench.detection import Calibration

FILE = "lengths.jsonl"


class LengthsStage:
    name = "lengths"

    def is_complete(self, run: Run) -> bool:
        return not lengths_of(run) or run.store.derived.is_current(FILE, self._inputs(run))

    def work(self, run: Run) -> None:
        samples = TextSet.of(SAMPLES, kept_samples(run))
        p_values: dict[str, dict[str, float]] = {identity: {} for identity in samples.ids}
        for tokens in lengths_of(run):
            for identity, p in self._judged(run, samples, tokens):
                p_values[identity][str(tokens)] = p
        lines = [encode_line({"id": identity, "p": found}) for identity, found in p_values.items()]
        run.store.derived.write(FILE, self._inputs(run), b"".join(lines))

    def tallies(self, run: Run) -> dict[str, Tally]:
        return {}

    def _inputs(self, run: Run) -> str:
        assert run.detector is not None
        texts = TextSet.of(SAMPLES, kept_samples(run)).digest
        calibration = run.store.derived.content_digest(CALIBRATION)
        return digest([texts, run.detector.features_identity, run.detector.identity, calibration, lengths_of(run)])

    def _judged(self, run: Run, samples: TextSet, tokens: int) -> list[tuple[str, float]]:
        assert run.detector is not None
        cut = samples.cut(tokens, run.backbone.codec)
        if not len(cut):
            return []
        parts = list(run.detector.features(cut.texts))
        views = [run.detector.score(part, run.key) for part in parts]
        calibration = self._calibration(run, tokens)
        alpha = run.plan.config.alpha
        verdicts = [verdict for found in views for verdict in run.detector.detect(found, calibration, alpha)]
        return [(identity, verdict.p_value) for identity, verdict in zip(cut.ids, verdicts, strict=True)]

    def _calibration(self, run: Run, tokens: int) -> Calibration:
        spec = run.nulls[0]
        if tokens >= spec.lengths[0]:
            return read_calibration(run)
        assert run.detector is not None
        return make_calibration(run.detector, run.library, spec, run.key, tokens=tokens)


def lengths_of(run: Run) -> list[int]:
    """Numbers of tokens to look at, ascending; none for a scheme without a detector."""
    longest = run.plan.decoding.max_new_tokens
    return sorted({n for n in run.plan.config.lengths if n <= longest}) if run.detector is not None else []


def read_lengths(run: Run) -> list[Record]:
    return JsonlFile(run.store.folder / FILE).read()
