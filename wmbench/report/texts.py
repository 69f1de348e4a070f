"""The texts behind the figures: clean, marked and attacked answers to the same prompts, with their evidence.

Evidence depends on the key and is kept in no file: it is computed when a report is made, on the machine that has the
key, from the run's own calibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wmbench.bench.draws import prompt_id
from wmbench.bench.jsonl import Record
from wmbench.bench.textset import CLEAN, UNATTACKED
from wmbench.errors import WmbenchError
from wmbench.report.document import Example, Passage, Piece
from wmbench.report.evidence import spans
from wmbench.report.folders import RunFolder, set_name

if TYPE_CHECKING:
    from wmbench.bench.detector import Detector
    from wmbench.detection import Calibration
    from wmbench.host import Host
    from wmbench.keys import SecretKey

MARKED = "marked"
_CALIBRATION = "calibration.npz"


class Illuminator:
    """Finds the evidence in texts of one run."""

    def __init__(self, detector: Detector, calibration: Calibration, key: SecretKey | None, alpha: float) -> None:
        self._detector = detector
        self._alpha = alpha
        self._calibration = calibration
        self._key = key

    @classmethod
    def of_run(cls, folder: RunFolder, host: Host, key: str | None = None) -> Illuminator:
        """As the calibration of the run says; refuses another key than the run's."""
        from wmbench.bench.build import Builder
        from wmbench.bench.calibrating import recorded_settings, require_fitting
        from wmbench.bench.detector import Detector
        from wmbench.bench.plan import resolve_runs
        from wmbench.config import load_config
        from wmbench.detection import Calibration

        path = folder.path / _CALIBRATION
        calibration = Calibration.load(path)
        config = load_config(options={**recorded_settings(calibration), "attacks": [], **({"key": key} if key else {})})
        plan = resolve_runs(config, host)[0]
        builder = Builder(host)
        detector = Detector(plan, builder, builder.codec(plan.backbone))
        secret = builder.existing_key(plan)
        require_fitting(calibration, detector, secret.id if secret else None, str(path))
        return cls(detector, calibration, secret, folder.metrics["alpha"])

    def pieces(self, texts: Sequence[str]) -> list[list[Piece]]:
        found: list[list[Piece]] = []
        codec = self._detector.codec
        for features in self._detector.features(texts):
            views = self._detector.score(features, self._key, evidence=True)
            for verdict in self._detector.detect(views, self._calibration, self._alpha):
                text = self._detector.as_scored(texts[len(found)])
                if not verdict.evidence:
                    found.append([Piece(text=text)])
                    continue
                parts = spans(codec.encode(text), verdict.evidence, codec)
                found.append([Piece.of(part, evidence) for part, evidence in parts])
        return found


def examples(
    folder: RunFolder, control: RunFolder | None, attacks: Sequence[str], count: int, light: Illuminator | None
) -> list[Example]:
    """The first `count` prompts whose marked answer was kept, each with its clean, marked and attacked texts."""
    chosen = list(folder.samples)[:count]
    sets: dict[str, dict[str, Record]] = {}
    if control is not None:
        by_prompt = {prompt_id(identity): record for identity, record in control.samples.items()}
        sets[CLEAN] = {i: by_prompt[prompt_id(i)] for i in chosen if prompt_id(i) in by_prompt}
    for attack in attacks:
        is_marked = attack == UNATTACKED
        records = folder.samples if is_marked else {r["id"]: r for r in folder.store.attacked(attack).read()}
        sets[MARKED if is_marked else attack] = records
    passages: dict[str, list[Passage]] = {identity: [] for identity in chosen}
    for kind, records in sets.items():
        verdicts = folder.verdicts(CLEAN if kind == CLEAN else set_name(UNATTACKED if kind == MARKED else kind))
        present = [identity for identity in chosen if identity in records]
        texts = {i: records[i]["text"] for i in present if records[i]["text"] is not None}
        lit = light.pieces(list(texts.values())) if light and texts else [[Piece(text=text)] for text in texts.values()]
        pieces = dict(zip(texts, lit, strict=True))
        for identity in present:
            passages[identity].append(
                _passage(
                    kind,
                    verdicts.get(records[identity]["id"]),
                    records[identity].get("error"),
                    pieces.get(identity, []),
                )
            )
    return [Example(id=i, prompt=folder.samples[i]["prompt"], passages=passages[i]) for i in chosen]


def _passage(kind: str, verdict: Record | None, error: str | None, pieces: list[Piece]) -> Passage:
    judged = {} if verdict is None else {name: verdict[name] for name in ("p", "score", "detected", "view")}
    return Passage(kind=kind, error=error, pieces=pieces, **judged)


def illuminator(folder: RunFolder, host: Host | None, key: str | None) -> tuple[Illuminator | None, str]:
    """What lights up the texts of a run, or why nothing does."""
    if host is None:
        return None, "no evidence was asked for"
    if not (folder.path / _CALIBRATION).exists():
        return None, "the calibration of the run is not there any more"
    try:
        return Illuminator.of_run(folder, host, key), ""
    except WmbenchError as error:
        return None, ": ".join(part for part in (error.message, error.why) if part)
