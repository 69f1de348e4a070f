"""What the lab registers, and its attacks on the real hook path."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pydantic import ValidationError

from wmbench.hookspecs import DISCOVERY_HOOKS
from wmbench.host import Entry, Host, PluginRecord, load_attribute
from wmbench.lab import plugin
from wmbench.lab.codec import lab_codec, weights_folder
from wmbench.lab.datasets import null_texts
from wmbench.lab.parse import parse
from wmbench.run_hooks import RunHooks
from wmbench.runtime.settings import Decoding
from wmbench.types import AttackContext, AttackInfo, AttackInput

ATTACKS = ("lab-rewrite", "lab-compress", "lab-expand", "lab-document")


@pytest.fixture(scope="module")
def host() -> Host:
    host = Host(strict=True)
    host.register(plugin, PluginRecord("lab", "wmbench", "test"))
    return host


@pytest.fixture(scope="module")
def texts() -> list[AttackInput]:
    return [AttackInput(null.id, null.text) for null in null_texts("", 6)]


def hooks(entry: Entry[AttackInfo], **settings: str) -> RunHooks:
    assert entry.info.config is not None
    config = load_attribute(entry.info.config)(**settings)
    return RunHooks(load_attribute(entry.info.factory)(config), entry.plugin)


def test_discovery_imports_no_torch() -> None:
    code = "import sys, wmbench.lab.plugin as p\n" + "".join(
        f"hasattr(p, {hook!r}) and p.{hook}()\n" for hook in DISCOVERY_HOOKS
    )
    code += "import wmbench.lab.commands, wmbench.lab.datasets, wmbench.lab.attacks\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_everything_registered_can_be_loaded(host: Host) -> None:
    registries = (host.attacks, host.backbones, host.datasets)
    for info in (registry[name].info for registry in registries for name in registry if not name.endswith(":")):
        assert callable(load_attribute(info.factory))
        assert info.summary
        if info.config:
            load_attribute(info.config)()
    assert callable(load_attribute(host.commands["lab"][0]))
    assert set(host.attacks) == set(ATTACKS)
    assert {host.datasets[name].info.kind for name in ("lab", "lab:finance", "clean:mini")} == {"nulls"}
    assert {host.datasets[name].info.kind for name in ("finance", "howto", "explain", "hf:owner/name")} == {"prompts"}


@pytest.mark.skipif(
    not (weights_folder() / "mini.safetensors").is_file(), reason="the weights of mini are not trained yet"
)
def test_backbones_decode_in_blocks_and_share_the_codec(host: Host) -> None:
    from wmbench.runtime.backbones import mini

    for name, attention in (("mini", "block"), ("mini-full", "full")):
        info = host.backbones[name].info
        assert info.config is not None
        assert info.codec is not None
        assert load_attribute(info.config)().attention == attention
        assert Decoding(**info.decoding).schedule == "block"
        # The torch-free codec must be the model's own, or detection would count other tokens.
        assert load_attribute(info.codec)(None).fingerprint == mini.lab_codec().fingerprint


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_on_the_hook_path(host: Host, texts: list[AttackInput], name: str) -> None:
    attack, context = hooks(host.attacks[name]), AttackContext(seed=3, codec=lab_codec())
    results = attack.attack(texts, context)
    assert attack.attack(texts, context) == results
    # Randomness depends on seed and id alone, not on neighbours.
    assert attack.attack(texts[2:3], context) == results[2:3]
    assert attack.attack(texts, AttackContext(seed=4, codec=lab_codec())) != results
    for item, result in zip(texts, results, strict=True):
        assert result.text not in (None, item.text)
        assert result.details["coverage"] > 0.9
    ratio = sum(r.details["words_after"] for r in results) / sum(r.details["words_before"] for r in results)
    low, high = {"lab-compress": (0.6, 0.7), "lab-expand": (1.3, 1.5)}.get(name, (0.95, 1.05))
    assert low <= ratio <= high


def test_held_out_words_are_a_setting(host: Host, texts: list[AttackInput]) -> None:
    context = AttackContext(seed=3, codec=lab_codec())
    held_out = {}
    for policy in ("with", "without", "only"):
        results = hooks(host.attacks["lab-rewrite"], held_out=policy).attack(texts, context)
        readings = [one.reading for result in results for one in parse(result.text or "")]
        held_out[policy] = sum(reading.frame.held_out for reading in readings if reading)
    assert held_out["without"] == 0
    assert min(held_out["with"], held_out["only"]) > 0
    with pytest.raises(ValidationError):
        hooks(host.attacks["lab-rewrite"], held_out="sometimes")


def test_an_attack_that_changes_nothing_says_so(host: Host) -> None:
    foreign = [AttackInput("a", "Quantum chromodynamics confines quarks."), AttackInput("b", "")]
    for result in hooks(host.attacks["lab-rewrite"]).attack(foreign, AttackContext(seed=0, codec=lab_codec())):
        assert result.text is None
        assert "can change nothing" in (result.error or "")
