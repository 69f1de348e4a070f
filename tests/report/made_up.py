"""Run folders with made-up scores, measured by the real code: several schemes, attacks and null families."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from wmbench.bench.cost import cost_per_token
from wmbench.bench.jsonl import JsonlFile
from wmbench.bench.measure import Judged, auc_interval, detection, false_positives, rate
from wmbench.bench.packed import write_packed
from wmbench.disk import pretty_json
from wmbench.types import Features

SCHEMES = {"denmark": 5.0, "dlm-kgw": 4.4, "dgmark": 4.8, "patternmark": 4.6, "umr": 4.7}
"""How far marked texts stand out, in standard deviations of the null texts."""
STRENGTHS = {"delete-0.1": 0.1, "delete": 0.3, "delete-0.5": 0.5}
ATTACKS = {
    **{"unattacked": 1.0, "lab-rewrite": 0.55, "lab-compress": 0.7, "lab-expand": 0.4, "lab-document": 0.5},
    **{attack: 1.0 - strength for attack, strength in STRENGTHS.items()},
    "crop": 0.8,
}
"""What is left of that under attack."""
PROMPTS = 60
HOSTILE = '<script>document.title = "owned"</script><img src=x onerror="alert(1)">" onmouseover=\'alert(2)\' &amp; ]]>'
BIDI = "left \u202e right-to-left \u2066 isolate \u200b zero width"
ENDLESS = "x" * 3000
SENTENCES = (
    "Start with a plain list of what you spend each month.",
    "Put a fixed amount aside on the day your salary arrives.",
    "Compare at least three offers before you sign anything.",
    "An emergency fund should cover about three months of costs.",
    "Ask what happens to the rate when the first year is over.",
    "Small fees add up, so read the whole table and not only the total.",
)
AFTER = {str(n): rate(np.arange(PROMPTS) < share * PROMPTS) for n, share in ((50, 0.2), (150, 0.6), (300, 1.0))}
"""Detected after so many tokens."""
NULLS = {
    "set": "lab", "plugin": "lab (wmbench 0.1.0)", "file": None, "codec": "c0ffee", "tokens": [150, 300],
    "calibration": 5200, "heldout": 1000,
}  # fmt: skip


def write_runs(
    folder: Path,
    schemes: dict[str, float] | None = None,
    dataset: str = "finance",
    backbone: str = "mini",
    **nulls: Any,
) -> list[Path]:
    """One folder per scheme, and one of the control."""
    found = [_write_control(folder, dataset, backbone)]
    for number, (scheme, strength) in enumerate((schemes or SCHEMES).items()):
        found.append(_write_run(folder, scheme, strength, number, dataset, backbone, {**NULLS, **nulls}))
    return found


def _write_run(
    folder: Path, scheme: str, strength: float, number: int, dataset: str, backbone: str, nulls: dict[str, Any]
) -> Path:
    run = folder / f"{scheme}_{backbone}_{dataset}_{number:010x}"
    (run / "verdicts").mkdir(parents=True)
    draw = np.random.default_rng([number, len(dataset)])
    heldout = _judged(draw.normal(size=1000))
    robust = 1.5 if scheme == "denmark" else 1.0
    cells, ids = [], _ids(dataset)
    for attack, left in ATTACKS.items():
        share = min(1.0, left * robust) if attack != "unattacked" else 1.0
        found = _judged(strength * share + draw.normal(size=PROMPTS))
        name = "samples" if attack == "unattacked" else f"attacked-{attack}"
        _write_verdicts(run, name, ids, found)
        lengths = draw.integers(150, 301, PROMPTS)
        (run / "features").mkdir(exist_ok=True)
        write_packed(run / "features", name, [Features.pack([np.zeros(1)] * PROMPTS, lengths.tolist())])
        detected = rate(found.p <= 0.01)
        cells.append({"attack": attack, "failed": 0, **detection(found, heldout), "detected": detected})
        if attack != "unattacked":
            _write_texts(run / "attacked" / f"{attack}.jsonl", dataset, f"{scheme} after {attack}")
    unmarked = _judged(draw.normal(size=PROMPTS))
    _write_verdicts(run, "clean", ids, unmarked)
    _write_verdicts(run, f"heldout-{nulls['set']}", [f"null-{i}" for i in range(1000)], heldout)
    families = [("lab", heldout, None), ("clean", unmarked, None), ("lab", heldout, "lab-rewrite")]
    metrics = {
        "schema_version": 1, "scheme": scheme, "alg_id": f"test.{scheme}.1", "status": "", "backbone": backbone,
        "dataset": dataset, "key_id": "0123456789ab", "alpha": 0.01,
        "samples": {"total": PROMPTS + 3, "kept": PROMPTS, "dropped": {"short": 3}},
        "calibration": {"n": nulls["calibration"], "views": 26 if scheme == "denmark" else 1, "nulls": nulls},
        "unresolved": {}, "cells": cells, "clean_auc": auc_interval(unmarked, heldout),
        "nulls": [{"family": f, **false_positives(j), **({"attack": a} if a else {})} for f, j, a in families],
        "wrong_keys": {"n": 0, "why": "none was asked for"},
        "quality": {"delta_log_perplexity": {"estimate": 0.05 * number, "low": 0.05 * number - 0.03,
                                             "high": 0.05 * number + 0.04, "n": [PROMPTS], "method": "made up"}},
        "something_new": {"a newer": "field"},
        "tokens_to_detect": {"estimate": 125.0, "low": 100.0, "high": 150.0, "alpha": 0.01, "detected_after": AFTER},
    }  # fmt: skip
    _write_texts(run / "samples.jsonl", dataset, f"{scheme} marked", per_token=[40, 2, 6, 1, 3][number % 5])
    clean = JsonlFile(folder / f"none_{backbone}_{dataset}_ffffffffff" / "samples.jsonl").read()
    metrics["cost"] = cost_per_token(JsonlFile(run / "samples.jsonl").read(), clean)
    (run / "metrics.json").write_bytes(pretty_json(metrics))
    _write_run_file(run, scheme, "secret", nulls)
    return run


def _write_control(folder: Path, dataset: str, backbone: str) -> Path:
    run = folder / f"none_{backbone}_{dataset}_ffffffffff"
    run.mkdir(parents=True)
    _write_texts(run / "samples.jsonl", dataset, "clean", per_token=1)
    _write_run_file(run, "none", "none", None)
    return run


def _write_run_file(run: Path, scheme: str, key_use: str, nulls: dict[str, Any] | None) -> None:
    dataset = run.name.split("_")[2]
    (run / "filter.jsonl").write_text("".join(json.dumps({"id": i, "kept": True}) + "\n" for i in _ids(dataset)))
    JsonlFile(run / "prompts.jsonl").rewrite({"id": i, "prompt": _prompt(n)} for n, i in enumerate(_ids(dataset)))
    document = {
        "schema_version": 1, "status": "success", "key_id": None if key_use == "none" else "0123456789ab",
        "arguments": {"passed": {"schemes": [{"name": "all", "params": {}}], "samples": PROMPTS}, "defaulted": {}},
        "scheme": {"name": scheme, "alg_id": f"test.{scheme}.1", "key_use": key_use, "status": ""},
        "spec": {"scheme": {"settings": {"delta": 2.0}}, "decoding": {"temperature": 0.5}, "seed": 0,
                 "backbone": {"name": "mini", "settings": {}}},
        "versions": {"python": "3.11.7", "wmbench": "0.1.0"}, "platform": {"system": "Linux"}, "filters": {},
        "fingerprints": {"backbone": "b", "codec": "c", "prompts": dataset}, "nulls": [nulls] if nulls else [],
        "dropped": {}, "attacks": {
            **{attack: {"curve": "delete: ratio", "strength": value} for attack, value in STRENGTHS.items()},
            "crop": {"curve": "crop: share", "strength": 0.3}, "lab-rewrite": {"curve": None, "strength": None},
        },
    }  # fmt: skip
    (run / "run.json").write_bytes(pretty_json(document))


def _ids(dataset: str) -> list[str]:
    return [f"{dataset}/{number}" for number in range(PROMPTS)]


def _prompt(number: int) -> str:
    return HOSTILE if number == 0 else f"How do I save money, part {number}?"


def _write_texts(path: Path, dataset: str, kind: str, per_token: int = 1) -> None:
    path.parent.mkdir(exist_ok=True)
    hostile = {0: f"{kind}: {HOSTILE}", 1: f"{BIDI} {ENDLESS} \ud800"}
    cost = {"forward_rows": 60 * per_token, "forward_tokens": 4000 * per_token, "head_rows": 60, "steps": 60}
    JsonlFile(path).rewrite(
        {
            "id": identity,
            "prompt": _prompt(number),
            "text": hostile.get(number) or " ".join(SENTENCES[(number + k) % len(SENTENCES)] for k in range(9)),
            "token_ids": [1] * 60,
            "cost": cost,
            "error": None,
        }
        for number, identity in enumerate(_ids(dataset))
    )


def _judged(scores: np.ndarray[Any, np.dtype[np.float64]]) -> Judged:
    from scipy.stats import norm

    return Judged(np.clip(norm.sf(scores), 1e-4, 1.0), scores)


def _write_verdicts(run: Path, name: str, ids: list[str], found: Judged) -> None:
    JsonlFile(run / "verdicts" / f"{name}.jsonl").rewrite(
        {"id": i, "p": float(p), "score": float(s), "detected": bool(p <= 0.01), "view": "25", "details": {}}
        for i, p, s in zip(ids, found.p, found.score, strict=True)
    )
