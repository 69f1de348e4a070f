"""What pytest collects for `wmbench conform`: the contract suite of one registered thing.

The environment variable WMBENCH_CONFORM says which, as JSON: kind, name, plugin files, settings, backbones, tolerance.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import pytest

from wmbench.bench.build import Builder
from wmbench.bench.plan import resolve_runs
from wmbench.config import load_config
from wmbench.host import Host
from wmbench.runtime.backbone import Backbone
from wmbench.testing.attacks import AttackContract
from wmbench.testing.backbones import BackboneContract
from wmbench.testing.encoders import EncoderContract
from wmbench.testing.on_mini import MiniContract, lab_texts
from wmbench.testing.schemes import SchemeContract
from wmbench.testing.toys import backbone_named
from wmbench.types import Encoder

VARIABLE = "WMBENCH_CONFORM"
ATTENTIONS = {"tiny": "full", "tiny-block": "block", "mini": "mini", "mini-full": "mini-full"}
"""Backbones that the contract of a scheme can run on, by the names that the suite has for them."""

Task = Mapping[str, Any]


def suites(task: Task) -> dict[str, type]:
    """Test classes by the names that pytest collects them under."""
    host = Host.discover(task["plugins"])
    if task["kind"] == "scheme":
        return _of_a_scheme(task, host)
    make = {"attack": _of_an_attack, "backbone": _of_a_backbone, "encoder": _of_an_encoder}[task["kind"]]
    return {"TestSubject": make(task, host)}


def _of_a_scheme(task: Task, host: Host) -> dict[str, type]:
    """One class for the tiny backbones and one for the embedded ones: their texts are in different words."""
    found: dict[str, type] = {}
    for contract, prefix in ((SchemeContract, "tiny"), (MiniContract, "mini")):
        names = [name for name in task["backbones"] if name.startswith(prefix)]
        if names:
            subject = _scheme_on(contract, names, task, host)
            if found:
                subject.test_is_described = None  # once is enough
            found[f"TestOn{prefix.capitalize()}"] = subject
    return found


def _scheme_on(contract: type[SchemeContract], names: list[str], task: Task, host: Host) -> Any:
    @pytest.fixture(params=[pytest.param(ATTENTIONS[name], id=name) for name in names])
    def backbone(self: SchemeContract, request: pytest.FixtureRequest) -> Backbone:
        return backbone_named(request.param)

    described = {
        "info": host.schemes.resolve(task["name"])[0].info,
        "settings": task["settings"],
        "plugin_files": tuple(task["plugins"]),
        "attentions": tuple(ATTENTIONS[name] for name in names),
        "backbone": backbone,
    }
    return type("Subject", (contract,), described)


def _of_an_attack(task: Task, host: Host) -> type:
    info = host.attacks.resolve(task["name"])[0].info
    described: dict[str, Any] = {"info": info, "settings": task["settings"]}
    if any(name.startswith("mini") for name in info.backbones):  # it understands the lab's texts alone
        documents = lab_texts(4)
        described["texts"] = (*documents, documents[0])
    return type("Subject", (AttackContract,), described)


def _of_a_backbone(task: Task, host: Host) -> type:
    chosen = {"name": task["name"], "params": task["settings"]}
    plan = resolve_runs(load_config(options={"schemes": ["none"], "attacks": [], "backbone": chosen}), host)[0]
    tolerance = task["tolerance"]

    class Subject(BackboneContract):
        if tolerance is not None:
            batch_tolerance = tolerance
            cache_tolerance = max(tolerance, BackboneContract.cache_tolerance)

        def make_backbone(self) -> Backbone:
            return Builder(host).backbone(plan.backbone)

    return Subject


def _of_an_encoder(task: Task, host: Host) -> type:
    class Subject(EncoderContract):
        if task["tolerance"] is not None:
            tolerance = task["tolerance"]

        def make_encoder(self) -> Encoder:
            return Builder(host).encoder(task["name"])

    return Subject


if VARIABLE in os.environ:
    globals().update(suites(json.loads(os.environ[VARIABLE])))
