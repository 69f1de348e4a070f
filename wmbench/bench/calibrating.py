"""What a calibration says about itself, and whether a detector may use it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from wmbench.bench.detector import Detector
from wmbench.bench.nulls import NullLibrary, NullSpec
from wmbench.bench.provenance import versions
from wmbench.detection import Calibration
from wmbench.errors import CalibrationError, IntegrityError
from wmbench.keys import SecretKey
from wmbench.registry import folded
from wmbench.settings import Settings


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


class _Named(BaseModel):
    name: str
    settings: dict[str, Any] = {}


class _Nulls(BaseModel):
    label: str | None = None
    digest: str | None = None
    tokens: tuple[int, int] | None = None


class _Record(BaseModel):
    """What is read of a calibration's metadata; all of it may be missing."""

    scheme: _Named | None = None
    key_id: str | None = None
    codec: str | None = None
    backbone: _Named | None = None
    decoding: dict[str, Any] | None = None
    normalise: bool = False
    features: str | None = None
    nulls: _Nulls | None = None


def load_calibration(path: str | os.PathLike[str]) -> Calibration:
    """A stored calibration whose metadata have the form that detection relies on."""
    calibration = Calibration.load(path)
    try:
        _Record.model_validate(calibration.metadata)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        raise IntegrityError(
            "the calibration's metadata are not what wmbench writes",
            where=os.fspath(path),
            why=f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}",
            hint="calibrate again",
        ) from None
    return calibration


def null_tokens(calibration: Calibration | None) -> tuple[int, int] | None:
    """Fewest and most tokens of the null texts, where they are known."""
    found = (calibration.metadata.get("nulls") or {}).get("tokens") if calibration is not None else None
    return (found[0], found[1]) if found else None


def described(calibration: Calibration | None) -> Settings | None:
    """Which null texts a p-value was ranked among, for whoever has to defend it; None without a calibration."""
    if calibration is None:
        return None
    nulls: Mapping[str, Any] = calibration.metadata.get("nulls") or {}
    tokens = null_tokens(calibration)
    return {
        "nulls": nulls.get("label"),
        "digest": nulls.get("digest"),
        "n": calibration.n0,
        "tokens": list(tokens) if tokens else None,
    }


def standing(scheme: str, key_id: str | None, calibration: Calibration | None) -> str:
    """The same in a sentence, with the key."""
    key = f"key {key_id}" if key_id else "no secret key"
    if (known := described(calibration)) is None:
        return f"{scheme}, {key}, no calibration: p-values are by the scheme's own law."
    source = f" of {known['nulls']}" if known["nulls"] else ""
    lengths = "-".join(str(end) for end in dict.fromkeys(known["tokens"] or ()))
    return f"{scheme}, {key}, calibrated on {known['n']:,} texts{source}{f', {lengths} tokens' if lengths else ''}."


def recorded_settings(calibration: Calibration | None, scheme: str | Mapping[str, Any] | None = None) -> Settings:
    """What a calibration was made with, as settings of a run; empty for what it does not say. The calibration's own
    scheme keeps its recorded settings when it is named; another `scheme` is taken as it is."""
    made: Mapping[str, Any] = calibration.metadata if calibration is not None else {}
    recorded: Mapping[str, Any] = made.get("scheme") or {}
    settings: Settings = {}
    if isinstance(scheme, str) and folded(scheme) == folded(recorded.get("name", "")):
        scheme = None
    if scheme is not None:
        settings["schemes"] = [scheme]
    elif recorded:
        params = recorded.get("settings") or {}
        settings["schemes"] = [{"name": recorded["name"], **({"params": params} if params else {})}]
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
    if not {"scheme", "key_id", "codec"} <= set(found) or not found["scheme"]:
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
        if made.get("name") != present["name"]:
            differences = differences[:1]  # whatever else differs follows from that
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
