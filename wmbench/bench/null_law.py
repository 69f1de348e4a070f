"""Does an analytic p-value keep its level on text that carries no mark? And if not, why?

A scheme's law describes tokens that are independent of each other and of the key. Text is not like that, in three ways
that can be taken away one by one:

    text       the null texts as they are, retokenised
    shuffled   the same tokens of each text in random order: no repeated phrases, but the same frequent tokens
    uniform    as many tokens, drawn evenly from the vocabulary: what the law describes

Each is scored under several keys. One key shifts all texts that share their frequent tokens alike, so the key is the
resampling unit; a rate whose interval lies above its level is called anti-conservative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

import numpy as np
import numpy.typing as npt

from wmbench.bench.detector import Detector
from wmbench.bench.measure import over_keys, rate
from wmbench.config import Choice
from wmbench.errors import ConfigError
from wmbench.host import Entry, load_attribute
from wmbench.keys import SecretKey
from wmbench.settings import Settings
from wmbench.types import Features, IntArray, SchemeInfo, TextCodec

LEVELS: Final = (0.1, 0.05, 0.01, 0.001)
STRATUM_LEVEL: Final = 0.01
_STRATA: Final = 3
_EMPIRICAL: Final = "empirical"
_EXTREME: Final = 1e-9
"""p-values are kept this far from 0 and 1 before they are read as normal scores."""
Floats = npt.NDArray[np.float64]


def with_analytic_p(choice: Choice, entry: Entry[SchemeInfo]) -> Choice:
    """The scheme with the p-value of its own law; refused for a scheme that has none, or is told not to use it."""
    config = load_attribute(entry.info.config, entry.plugin) if entry.info.config else None
    field = config.model_fields.get("p_value") if config is not None else None
    laws = [law for law in get_args(field.annotation) if law != _EMPIRICAL] if field is not None else []
    if not laws:
        raise ConfigError(
            f"scheme {choice.name!r} has no analytic law",
            why="it has no setting `p_value` besides `empirical`",
            hint="leave it out; `wmbench ls schemes --settings` shows which schemes have one",
        )
    if choice.params.get("p_value") == _EMPIRICAL:
        raise ConfigError(
            f"scheme {choice.name!r} is set to empirical p-values",
            why="analytic ones are examined here",
            hint=f"leave p_value out, or set it to {' or '.join(map(str, laws))}",
        )
    return choice.model_copy(update={"params": {"p_value": laws[0], **choice.params}})


@dataclass(frozen=True)
class NullTokens:
    """Token ids of null texts, and their shuffled and uniform counterparts."""

    variants: Mapping[str, Features]
    repetition: Floats
    """[n] share of the token pairs of a text that occurred in it before."""
    changed: float
    """Share of texts whose tokens change when they are decoded and tokenised again."""

    @classmethod
    def of(cls, texts: Sequence[str], codec: TextCodec, seed: int = 0) -> NullTokens:
        ids = [np.asarray(tokens, dtype=np.int64) for tokens in codec.encode_batch(texts)]
        generator = np.random.Generator(np.random.Philox(seed))
        plain = np.setdiff1d(np.arange(codec.size), np.array(sorted(codec.special_ids), dtype=np.int64))
        again = codec.encode_batch([codec.decode(tokens.tolist()) for tokens in ids])
        lengths = [len(tokens) for tokens in ids]
        return cls(
            {
                "text": Features.pack(ids, lengths),
                "shuffled": Features.pack([generator.permutation(tokens) for tokens in ids], lengths),
                "uniform": Features.pack([generator.choice(plain, size=n) for n in lengths], lengths),
            },
            np.array([repetition(tokens) for tokens in ids]),
            float(np.mean([tokens.tolist() != other for tokens, other in zip(ids, again, strict=True)])),
        )

    @property
    def lengths(self) -> IntArray:
        return self.variants["text"].lengths


def repetition(ids: IntArray) -> float:
    """Share of neighbouring pairs that occurred before in the same text."""
    if len(ids) < 2:
        return 0.0
    pairs = np.stack([ids[:-1], ids[1:]], axis=1)
    return 1.0 - len(np.unique(pairs, axis=0)) / len(pairs)


def examine(detector: Detector, tokens: NullTokens, keys: Sequence[SecretKey | None]) -> Settings:
    """Rates of every variant at every level, spreads, strata, and what follows from them. JSON values."""
    if "features" in detector.hooks.implemented:
        raise ConfigError(
            f"scheme {detector.plan.scheme.label!r} does not score token ids: its law cannot be taken apart"
        )
    p = {name: _p_values(detector, features, keys) for name, features in tokens.variants.items()}
    rates = {name: {f"{level:g}": _rate(values, level) for level in LEVELS} for name, values in p.items()}
    return {
        "scheme": detector.plan.scheme.label,
        "settings": detector.plan.scheme.dump(),
        "texts": len(tokens.lengths),
        "keys": len(keys),
        "tokens": [int(tokens.lengths.min()), int(tokens.lengths.max())],
        "changed_by_retokenisation": tokens.changed,
        "rates": rates,
        "spread": {name: _spread(values) for name, values in p.items()},
        "strata": {
            "repeated pairs": _strata(p["text"], tokens.repetition),
            "tokens": _strata(p["text"], tokens.lengths.astype(np.float64)),
        },
        "findings": findings(rates),
    }


def _p_values(detector: Detector, features: Features, keys: Sequence[SecretKey | None]) -> Floats:
    """[keys, texts]"""
    rows = []
    for key in keys:
        verdicts = detector.detect(detector.score(features, key), None, STRATUM_LEVEL)
        rows.append([verdict.p_value for verdict in verdicts])
    return np.array(rows, dtype=np.float64)


def _rate(p: Floats, level: float) -> dict[str, Any]:
    per_key = (p <= level).mean(axis=1)
    # One key, for instance a published constant: then the texts are what is drawn.
    found = over_keys(per_key.tolist()) if len(p) > 1 else rate(p[0] <= level)
    return {name: found[name] for name in ("estimate", "low", "high")} | {"worst_key": float(per_key.max())}


def _spread(p: Floats) -> dict[str, float]:
    """Of normal scores: 1 within a key under the law, and nothing but chance between keys."""
    from scipy.special import ndtri

    scores = -ndtri(np.clip(p, _EXTREME, 1 - _EXTREME))
    return {"within_key": float(scores.std(axis=1).mean()), "between_keys": float(scores.mean(axis=1).std())}


def _strata(p: Floats, by: Floats) -> list[dict[str, Any]]:
    """Rates at one level in thirds of the texts, over all keys."""
    order = np.array_split(np.argsort(by, kind="stable"), _STRATA)
    return [
        {
            "from": float(by[part[0]]),
            "to": float(by[part[-1]]),
            "texts": len(part),
            "rate": float((p[:, part] <= STRATUM_LEVEL).mean()),
        }
        for part in order
        if len(part)
    ]


def findings(rates: Mapping[str, Mapping[str, Mapping[str, float]]]) -> list[str]:
    """Where the law is anti-conservative on text, and which step from uniform tokens to text made it so."""
    found = []
    for level in LEVELS:
        name = f"{level:g}"
        text, shuffled, uniform = (rates[variant][name] for variant in ("text", "shuffled", "uniform"))
        if text["low"] <= level:
            continue
        causes = []
        if uniform["low"] > level:
            causes.append("the law itself: it fails on independent uniform tokens, too")
        if shuffled["low"] > uniform["high"]:
            causes.append("frequent tokens: a key colours the same few of them in all texts")
        if text["low"] > shuffled["high"]:
            causes.append("the order of words: phrases that come back count again and again")
        if not causes:
            causes.append("no single step stands out of its interval: use more keys or texts")
        found.append(
            f"anti-conservative at {name}: {text['estimate']:.3%} [{text['low']:.3%}, {text['high']:.3%}], "
            f"worst key {text['worst_key']:.3%} ({'; '.join(causes)})"
        )
    return found or ["no level is exceeded beyond its interval"]
