"""Every scheme runs with the settings of the DenMark paper's appendix, by backbone and data set."""

from __future__ import annotations

from typing import Any

import pytest

from tests.pipeline.helpers import host
from wmbench.bench.plan import RunPlan, resolve_runs
from wmbench.config import Overrides, load_config

BLOCKS = {"schedule": "block", "block_length": 25, "temperature": 0.5, "max_new_tokens": 300}
LLADA = ["llada-8b", "llada-1.5", "llada2.0-mini"]
DATASETS = ["finance_qa", "alpacafarm", "longform_qa"]


def plans(scheme: str, backbones: list[str]) -> list[RunPlan]:
    options = {"schemes": [scheme], "backbones": backbones, "datasets": DATASETS, "attacks": []}
    return resolve_runs(load_config("paper", options=options), host())


def has(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    return {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("scheme", "backbones", "settings", "decoding"),
    [
        ("dlm_kgw", LLADA[:2], {"delta": 4.0, "gamma": 0.25, "topk": 50}, {**BLOCKS, "positions": "random"}),
        ("dlm_kgw", LLADA[2:], {"delta": 4.25, "gamma": 0.25, "topk": 50}, {"positions": "random", "temperature": 0.5}),
        ("dlm_kgw", ["dream-7b"], {"delta": 4.0}, {"schedule": "origin", "steps": 300, "temperature": 0.5}),
        ("dgmark", LLADA, {"beam": 10, "candidate_top_k": 10, "statistic": "windowed"}, BLOCKS),
        ("dgmark", ["dream-7b"], {"beam": 32, "candidate_top_k": 32}, {**BLOCKS, "positions": "low_confidence"}),
        ("patternmark", LLADA[:2], {"delta": 4.0, "colours": 2}, {**BLOCKS, "positions": "random"}),
        ("patternmark", [LLADA[2], "dream-7b"], {"delta": 4.0, "colours": 2}, {"temperature": 0.5}),
        ("umr", LLADA, {"message": "1001", "ratio": 0.5}, {**BLOCKS, "positions": "low_confidence"}),
        ("umr", ["dream-7b"], {"delta": 10.0, "message": "1001", "ratio": 0.5}, {"temperature": 0.5}),
        (
            "block_best_of_k",
            LLADA,
            {"unit_size": 25, "candidates": 16, "block_temperature": 0.9, "channels": 2},
            BLOCKS,
        ),
        ("pmark", LLADA, {"unit_size": 25, "candidates": 16, "block_temperature": 0.9, "median": "prior"}, BLOCKS),
        ("semstamp", LLADA, {"unit_size": 25, "bits": 2, "rate": 0.25, "margin": 0.02, "trials": 100}, BLOCKS),
    ],
)
def test_settings_of_the_paper(
    scheme: str, backbones: list[str], settings: dict[str, Any], decoding: dict[str, Any]
) -> None:
    for plan in plans(scheme, backbones):
        assert has(plan.scheme.dump(), settings), plan.title
        assert has(plan.decoding.model_dump(), decoding), plan.title


def test_umr_marks_alpaca_more_strongly_on_llada() -> None:
    found = {(p.backbone.label, p.dataset.label): p.scheme.dump()["delta"] for p in plans("umr", [*LLADA, "dream-7b"])}
    stronger = {place for place, delta in found.items() if delta == 13.0}
    assert len(found) == 12
    assert {backbone for backbone, _ in stronger} == {b for b, _ in found} - {"dream-7b"}
    assert {dataset for _, dataset in stronger} == {"alpacafarm"}
    assert {delta for place, delta in found.items() if place not in stronger} == {10.0}


def test_the_paper_preset_is_keyed_as_published() -> None:
    """Every scheme that has a published pseudorandom function; what the user says about a scheme still wins."""
    paper = {"backbones": ["llada-8b"], "datasets": ["finance_qa"], "attacks": []}
    for plan in resolve_runs(load_config("paper", options=paper), host()):
        assert plan.scheme.dump().get("prf") == (None if plan.is_control else "official"), plan.title
    (own,) = resolve_runs(
        load_config("paper", options={**paper, "schemes": ["umr"]}, overrides=Overrides(schemes={"prf": "hmac"})),
        host(),
    )
    (usual,) = resolve_runs(load_config(options={**paper, "schemes": ["umr"]}), host())
    assert own.scheme.dump()["prf"] == usual.scheme.dump()["prf"] == "hmac"
    assert own.key_use == "secret"


def test_published_settings_name_backbones_and_datasets_that_exist() -> None:
    for name, entry in host().schemes.items():
        for place in entry.info.settings:
            backbone, _, dataset = place.partition("/")
            assert backbone in host().backbones, f"{name}: {place}"
            assert not dataset or dataset in host().datasets, f"{name}: {place}"
