"""Configurations: layers, overrides, and errors that name the field, the value and the near names."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from tests.store.helpers import demo_host, resolve
from wmbench.bench.plan import RunPlan, resolve_runs
from wmbench.bench.resolved import spec_hash
from wmbench.config import Overrides, key_source, load_config, parse_override, read_settings_file, validated
from wmbench.errors import ConfigError, UnknownNameError


def test_preset_file_and_options_in_this_order(tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("samples: 5\nseed: 7\ndecoding: {temperature: 0.3, top_k: 5}\n")
    config = load_config("quick", file, {"seed": 9, "decoding": {"top_k": 6}})
    assert (config.samples, config.seed, config.decoding) == (5, 9, {"temperature": 0.3, "top_k": 6})
    assert set(config.passed) == {"samples", "seed", "decoding"}
    assert config.defaulted["attacks"] == [{"name": "few", "params": {}}]
    assert not {"batch_size", "output"} & {*config.passed, *config.defaulted}


def test_yaml_and_toml_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("samples: 5\nschemes:\n  - none\n  - {name: demo, params: {delta: 1.0}}\n")
    (tmp_path / "a.toml").write_text('samples = 5\nschemes = ["none", {name = "demo", params = {delta = 1.0}}]\n')
    assert read_settings_file(tmp_path / "a.yaml") == read_settings_file(tmp_path / "a.toml")


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        ("a: [", "x.yaml", "not valid YAML"),
        ("a = [", "x.toml", "not valid TOML"),
        ("- 1", "x.yaml", "not a list of"),
        ("sampels: 3", "x.yaml", "did you mean 'samples'"),
        ("samples: many", "x.yaml", "samples = 'many'"),
        ("alpha: 2", "x.yaml", "alpha = 2"),
        ("schemes: none", "x.yaml", "schemes = 'none'"),
        ("schemes: [{nam: none}]", "x.yaml", "schemes.0.name is required"),
        ("schemes: [{name: none, parms: {}}]", "x.yaml", "'schemes.0.parms': did you mean 'params'\\?"),
        (
            "attacks: [{name: none, colour: 1}]",
            "x.yaml",
            "'attacks.0.colour'\n(.*\n)?  why: known settings: name, params\n",
        ),
    ],
)
def test_errors_of_a_file_name_field_and_value(tmp_path: Path, content: str, name: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ConfigError, match=message) as caught:
        load_config("quick", tmp_path / name)
    assert caught.value.exit_code == 2
    assert str(tmp_path / name) in (caught.value.where or "")


def test_a_missing_file_and_an_unknown_preset() -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config("quick", "nowhere.yaml")
    with pytest.raises(UnknownNameError, match="did you mean 'quick'"):
        load_config("quik")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=3", 3),
        ("a=0.5", 0.5),
        ("a=1e-3", 1e-3),
        ("a=true", True),
        ("a=null", None),
        ("a=[1, 2]", [1, 2]),
        ("a=x=y", "x=y"),
    ],
)
def test_overrides_are_yaml_scalars(text: str, value: object) -> None:
    assert parse_override(text, "-S") == ("a", value)


@pytest.mark.parametrize("text", ["a", "=3", "a=[1"])
def test_overrides_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="-S"):
        parse_override(text, "-S")


def test_an_override_must_say_which_scheme_it_means() -> None:
    chosen = {"schemes": ["none", "demo"]}
    with pytest.raises(ConfigError, match="which scheme is meant"):
        load_config(options=chosen, overrides=Overrides(schemes={"delta": 1}))
    with pytest.raises(UnknownNameError, match="did you mean 'demo'"):
        load_config(options=chosen, overrides=Overrides(schemes={"dmeo.delta": 1}))
    config = load_config(options=chosen, overrides=Overrides(schemes={"demo.delta": 1}))
    assert [choice.params for choice in config.schemes] == [{}, {"delta": 1}]


def test_an_override_of_one_among_all() -> None:
    plan = resolve({"attacks": ["all"]}, Overrides(attacks={"flaky.rate": 0.2}))
    labels = [attack.label for attack in plan.attacks]
    assert "identity" in labels
    assert [label for label in labels if label.startswith("flaky")] == ["flaky-0.2"]


def test_settings_are_layered_library_backbone_scheme_user() -> None:
    plan = resolve({"schemes": ["demo"], "decoding": {"top_k": 3}})
    assert plan.decoding.block_length == 8  # backbone
    assert (plan.decoding.temperature, plan.decoding.steps) == (0.9, 16)  # scheme, published
    assert plan.decoding.top_k == 3  # user
    assert plan.scheme.dump() == {"delta": 1.5, "gamma": 0.25}
    plan = resolve({"schemes": ["demo"], "decoding": {"tokens_per_step": 2}}, Overrides(schemes={"delta": 3}))
    assert (plan.decoding.steps, plan.decoding.tokens_per_step) == (None, 2)
    assert plan.scheme.dump() == {"delta": 3.0, "gamma": 0.25}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schemes": ["dmeo"]}, "unknown scheme 'dmeo': did you mean 'demo'"),
        ({"schemes": []}, "no scheme is chosen"),
        ({"schemes": [{"name": "demo", "params": {"dleta": 1}}]}, "no setting 'dleta': did you mean 'delta'"),
        ({"schemes": [{"name": "demo", "params": {"delta": "x"}}]}, "delta = 'x'"),
        ({"schemes": [{"name": "none", "params": {"delta": 1}}]}, "has no setting"),
        ({"schemes": [{"name": "all", "params": {"delta": 1}}]}, "`all` has no settings"),
        ({"attacks": [{"name": "local", "params": {"rate": 0.3}}]}, "`local` has no settings"),
        ({"attacks": ["identiti"]}, "did you mean 'identity'"),
        ({"attacks": ["identity:0.3"]}, "has no strength"),
        ({"attacks": ["flaky:lots"]}, "rate = 'lots'"),
        ({"attacks": ["flaky:0.3", {"name": "flaky", "params": {"rate": 0.3}}]}, "chosen twice"),
        ({"backbone": "tinny"}, "did you mean 'tiny'"),
        ({"datasets": ["jsnol:x"]}, "unknown dataset"),
        ({"datasets": ["jsonl:"]}, "after the colon"),
        ({"nulls": ["lab:finanse"]}, "unknown lab domain 'finanse': did you mean 'finance'"),
        ({"nulls": ["lab", "clean:tinny"]}, "unknown backbone 'tinny': did you mean 'tiny'"),
        ({"nulls": ["c4:nowhere.jsonl"]}, "cannot be read"),
        ({"nulls": ["texts:nowhere.jsonl"]}, "cannot be read"),
        ({"schemes": [{"name": "demo", "params": 3}]}, "params = 3"),
        ({"decoding": {"steps": 3, "tokens_per_step": 2}}, "either `steps` or `tokens_per_step`"),
    ],
)
def test_errors_of_names_and_settings(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(options)


def test_attacks_are_labelled_by_what_differs_from_their_own_settings() -> None:
    chosen = ["flaky", "flaky:0.25", {"name": "flaky", "params": {"shout": True}}]
    labels = [attack.label for attack in resolve({"attacks": chosen}).attacks]
    assert labels[:2] == ["flaky", "flaky-0.25"]
    assert labels[2].startswith("flaky-")
    assert len(set(labels)) == 3


def test_the_spec_hash_covers_what_determines_the_texts_and_nothing_else() -> None:
    prints = {"backbone": "b", "codec": "c", "prompts": "p", "key_id": "k"}

    def hashed(options: dict[str, object], **changed: str) -> str:
        return spec_hash(resolve({"schemes": ["demo"], **options}).identity(**{**prints, **changed}))

    base = hashed({})
    assert len(base) == 10
    for how in ({"batch_size": 3}, {"output": "elsewhere"}, {"failure_limit": 0.5}, {"alpha": 0.05}, {"attacks": []}):
        assert hashed(how) == base
    different = [
        hashed({"seed": 1}),
        hashed({"decoding": {"temperature": 0.1}}),
        hashed({"schemes": [{"name": "demo", "params": {"delta": 9}}]}),
        hashed({"backbone": "tiny-block"}),
        *(hashed({}, **{name: "other"}) for name in prints),
    ]
    assert len({base, *different}) == 1 + len(different)


def test_keys_are_named_and_never_repeated() -> None:
    assert key_source("env:K").name == "K"
    secret = "ab" * 32
    for text in (secret, f"env:{secret}", f"hex:{secret}"):
        with pytest.raises(ConfigError) as caught:
            key_source(text)
        assert secret not in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        load_config(options={"alpha": secret})
    assert secret not in str(caught.value)


def test_settings_that_cannot_be_written_down_are_refused() -> None:
    with pytest.raises(ConfigError, match="finite"):
        spec_hash({"delta": float("inf")})


def test_the_default_backbone_and_dataset_are_installed() -> None:
    host = demo_host()
    plan = resolve_runs(load_config(options={"schemes": ["none"]}), host)[0]
    assert plan.backbone.info.name == ("mini" if "mini" in host.backbones else "tiny")
    assert plan.dataset.info.name == "finance"


def test_a_misspelt_setting_is_refused_even_where_the_model_would_ignore_it() -> None:
    class Lenient(BaseModel):
        delta: float = 2.0

    with pytest.raises(ConfigError, match="did you mean 'delta'"):
        validated(Lenient, {"delat": 3}, "scheme 'mine'")


def test_a_scheme_that_is_only_named_keeps_the_settings_of_the_preset() -> None:
    alone = load_config(preset="lab-mid", options={"schemes": ["dlm_kgw", "mine"]}).schemes
    (own,) = (one for one in load_config(preset="lab-mid").schemes if one.name == "dlm_kgw")
    assert own.params
    assert [(one.name, one.params) for one in alone] == [("dlm_kgw", own.params), ("mine", {})]
    said = [{"name": "dlm_kgw", "params": {"delta": 1.0}}]
    assert load_config(preset="lab-mid", options={"schemes": said}).schemes[0].params == {"delta": 1.0}


def test_hyphens_and_underscores_are_the_same_and_the_registered_name_is_recorded() -> None:
    def made(scheme: str, attack: str, backbone: str) -> RunPlan:
        config = load_config(
            preset="lab-mid",
            options={"schemes": [scheme], "attacks": [f"delete:0.3|{attack}:0.2", attack], "backbone": backbone},
            overrides=Overrides({f"{scheme}.gamma": 0.3}, {f"{attack}.excerpts": 2}, {"layers": 1}),
        )
        return resolve_runs(config, demo_host())[0]

    registered, typed = made("dlm_kgw", "copy-paste", "tiny-block"), made("dlm-kgw", "copy_paste", "tiny_block")
    assert typed.config.passed == registered.config.passed
    assert typed.describe() == registered.describe()
    assert typed.scheme.dump()["delta"] == 4.5, "the preset's own"
    with pytest.raises(UnknownNameError):
        made("dlm kgw", "copy-paste", "tiny-block")
