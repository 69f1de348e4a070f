"""What a calibration says about itself, and whether a detector may use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmbench.bench.detector import Detector
from wmbench.bench.nulls import NullLibrary, NullSpec
from wmbench.bench.provenance import versions
from wmbench.config import Settings
from wmbench.detection import Calibration
from wmbench.errors import CalibrationError
from wmbench.keys import SecretKey


def calibration_metadata(detector: Detector, nulls: NullSpec, key_id: str | None) -> Settings:
    plan = detector.plan
    return {
        "scheme": detector.identity,
        "key_id": key_id,
        "codec": detector.codec.fingerprint,
        "backbone": {"name": plan.backbone.info.name, "settings": plan.backbone.dump()},
        "decoding": {"block_length": plan.decoding.block_length, "max_new_tokens": plan.decoding.max_new_tokens},
        "normalise": detector.normalises,
        "features": detector.features_digest,
        "nulls": {**nulls.identity, "label": nulls.label, "digest": nulls.digest},
        "versions": versions([plan.scheme.entry.plugin]),
    }


def make_calibration(
    detector: Detector, library: NullLibrary, nulls: NullSpec, key: SecretKey | None, *, tokens: int | None = None
) -> Calibration:
    """Score the calibration texts of a null set under a key; with `tokens` only so many of each text's first tokens.
    Held-out texts are not touched."""
    texts = library.texts(nulls)["calibration"] if tokens is None else library.cut(nulls, tokens)
    views = library.scores(nulls, texts, detector, key)
    metadata = calibration_metadata(detector, nulls, key.id if key else None)
    if tokens is not None:
        metadata["nulls"] = {**metadata["nulls"], "tokens": [tokens, tokens]}
    return Calibration(views.scores, views.names, metadata)


def recorded_settings(calibration: Calibration) -> Settings:
    """What a calibration was made with, as settings of a run; empty for what it does not say."""
    made: Mapping[str, Any] = calibration.metadata
    settings: Settings = {}
    if scheme := made.get("scheme"):
        params = scheme.get("settings") or {}
        settings["schemes"] = [{"name": scheme["name"], **({"params": params} if params else {})}]
    if backbone := made.get("backbone"):
        params = {name: value for name, value in backbone["settings"].items() if name != "argument"}
        name = f"{backbone['name']}{backbone['settings'].get('argument', '')}"
        settings["backbone"] = {"name": name, "params": params}
    if decoding := made.get("decoding"):
        settings["decoding"] = decoding
    if made.get("normalise"):
        settings["normalise"] = True
    return settings


def require_fitting(calibration: Calibration, detector: Detector, key_id: str | None, where: str) -> None:
    """Refuse a calibration of another scheme, configuration, key or tokenizer, naming what differs."""
    found: Mapping[str, Any] = calibration.metadata
    if not {"scheme", "key_id", "codec"} <= set(found):
        raise CalibrationError("this calibration does not say what it was made for", where=where, hint=_AGAIN)
    made, present = found["scheme"], detector.identity
    differences = [
        f"{what}: calibrated {_shown(before)}, now {_shown(now)}"
        for what, before, now in (
            ("scheme", made.get("name"), present["name"]),
            ("algorithm", made.get("alg_id"), present["alg_id"]),
            *_setting_pairs(made.get("settings", {}), present["settings"]),
            ("key id", found["key_id"], key_id),
            ("tokenizer", found["codec"], detector.codec.fingerprint),
            ("--normalise", found.get("normalise", False), detector.normalises),
            ("features", found.get("features"), detector.features_digest),
        )
        if before != now
    ]
    if differences:
        if len(differences) > 1:  # the features differ with the settings; saying so helps only when nothing else does
            differences = [line for line in differences if not line.startswith("features:")]
        raise CalibrationError(
            "this calibration was made for another detector", where=where, why="; ".join(differences), hint=_AGAIN
        )


_AGAIN = "name the calibration's own scheme, settings and key, or make another one with `wmbench calibrate`"


def _setting_pairs(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    return [(f"setting {name}", before.get(name), now.get(name)) for name in sorted({*before, *now})]


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)
