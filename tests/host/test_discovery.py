"""Plugins are found through entry points, loaded one by one, and a broken one harms nobody but itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_distributions import FakeDistributions, scheme_source

from wmbench.cli.invocation import Invocation
from wmbench.errors import ConfigError, PluginError, UnknownNameError
from wmbench.host import Host, PluginRecord, load_attribute

BROKEN = {
    "raises_at_import": ("raise RuntimeError('no such GPU')", "no such GPU"),
    "exits_at_import": ("import sys; sys.exit(3)", "SystemExit"),
    "misses_a_dependency": ("import a_module_that_nobody_has", "a_module_that_nobody_has"),
    "raises_at_registration": (
        """
        from wmbench import hookimpl
        @hookimpl
        def register_schemes():
            raise KeyError("weights")
        """,
        "weights",
    ),
    "exits_at_registration": (
        """
        from wmbench import hookimpl
        @hookimpl
        def register_attacks():
            raise SystemExit(0)
        """,
        "hook register_attacks raised SystemExit: 0 (fake_bad_",
    ),
    "returns_no_list": (
        """
        from wmbench import hookimpl
        @hookimpl
        def register_schemes():
            return {"mine": "scheme"}
        """,
        "register_schemes returned dict",
    ),
    "returns_the_wrong_things": (
        """
        from wmbench import hookimpl
        from wmbench.types import AttackInfo
        @hookimpl
        def register_schemes():
            return [AttackInfo("a", "b", "c:d")]
        """,
        "register_schemes returned a AttackInfo",
    ),
    "gives_a_class_for_a_path": (
        """
        from wmbench import hookimpl
        from wmbench.types import SchemeInfo
        @hookimpl
        def register_schemes():
            return [SchemeInfo("a", "b", "c:d", config=int)]
        """,
        "a: config is <class 'int'>, expected an import path",
    ),
    "misspells_the_use_of_its_key": (
        """
        from wmbench import hookimpl
        from wmbench.types import SchemeInfo
        @hookimpl
        def register_schemes():
            return [SchemeInfo("a", "b", "c:d", key_use="secrt")]
        """,
        "a: key_use is 'secrt', expected one of secret, fixed, none",
    ),
    "gives_a_word_for_a_set": (
        """
        from wmbench import hookimpl
        from wmbench.types import SchemeInfo
        @hookimpl
        def register_schemes():
            return [SchemeInfo("a", "b", "c:d", decoding_only="delta")]
        """,
        "a: decoding_only is 'delta', expected a frozenset",
    ),
    "has_a_name_that_nobody_can_type": (
        """
        from wmbench import hookimpl
        from wmbench.types import AttackInfo
        @hookimpl
        def register_attacks():
            return [AttackInfo("my attack|b", "b", "c:d")]
        """,
        "'my attack|b' cannot be a name",
    ),
    "takes_a_word_for_several_schemes": (
        """
        from wmbench import hookimpl
        from wmbench.types import SchemeInfo
        @hookimpl
        def register_schemes():
            return [SchemeInfo("all", "b", "c:d")]
        """,
        "'all' cannot be a name: it stands for several",
    ),
    "takes_a_word_for_several_attacks": (
        """
        from wmbench import hookimpl
        from wmbench.types import AttackInfo
        @hookimpl
        def register_attacks():
            return [AttackInfo("few", "b", "c:d")]
        """,
        "'few' cannot be a name: it stands for several",
    ),
    "forgets_to_return": (
        """
        from wmbench import hookimpl
        @hookimpl
        def register_schemes():
            ["nothing"]
        """,
        "register_schemes returned nothing",
    ),
    "has_no_hook": ("def register_schemes(): return []", "registers nothing"),
    "registers_a_command_twice": (
        """
        from wmbench import hookimpl
        @hookimpl
        def register_commands():
            return [("draw", "module:a", "help"), ("draw", "module:b", "help")]
        """,
        "command 'draw' is already registered by bad (wmbench-bad 0.9)",
    ),
    "takes_a_builtin_command": (
        """
        from wmbench import hookimpl
        @hookimpl
        def register_commands():
            return [("run", "module:a", "help")]
        """,
        "command 'run' is one of wmbench's own",
    ),
    "has_an_unknown_hook": (
        """
        from wmbench import hookimpl
        @hookimpl
        def register_scheme():
            return []
        """,
        "unknown hook 'register_scheme'",
    ),
    "has_a_wrong_argument": (
        """
        from wmbench import hookimpl
        @hookimpl
        def register_schemes(config):
            return []
        """,
        "config",
    ),
    "has_half_a_command": (
        """
        from wmbench import hookimpl
        @hookimpl
        def register_commands():
            return [("name", "module:command")]
        """,
        "registration failed",
    ),
}


def record(host: Host, name: str) -> PluginRecord:
    return next(plugin for plugin in host.plugins if plugin.name == name)


def test_installed_plugin_is_found(fakes: FakeDistributions) -> None:
    fakes.install("good", scheme_source("good-scheme"))
    host = Host.discover()
    entry = host.schemes["good-scheme"]
    assert str(entry.plugin) == "good (wmbench-good 1.2.3)"
    assert record(host, "good").hooks == ("register_schemes",)
    assert load_attribute(entry.info.factory, entry.plugin)(None, None) == "built"


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_plugin_is_named_and_others_work(fakes: FakeDistributions, fault: str) -> None:
    source, reason = BROKEN[fault]
    fakes.install("bad", source, version="0.9")
    fakes.install("good", scheme_source("good-scheme"))
    host = Invocation().host
    failed = record(host, "bad")
    assert (failed.distribution, failed.version) == ("wmbench-bad", "0.9")
    assert failed.error is not None
    assert reason in failed.error
    assert "good-scheme" in list(host.schemes)
    assert record(host, "good").error is None


def test_strict_makes_a_broken_plugin_fatal(fakes: FakeDistributions, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install("bad", "raise RuntimeError('no such GPU')")
    monkeypatch.setenv("WMBENCH_STRICT_PLUGINS", "0")
    Host.discover()
    monkeypatch.setenv("WMBENCH_STRICT_PLUGINS", "1")
    with pytest.raises(PluginError, match=r"bad \(wmbench-bad 1\.2\.3\)") as caught:
        Host.discover()
    assert caught.value.exit_code == 3
    assert "no such GPU" in str(caught.value)


def test_plugins_can_be_disabled_by_name(fakes: FakeDistributions, monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install("bad", "raise RuntimeError('no such GPU')")
    fakes.install("good", scheme_source("good-scheme"))
    monkeypatch.setenv("WMBENCH_DISABLE_PLUGINS", " bad, none")
    host = Host.discover()
    names = {plugin.name for plugin in host.plugins}
    assert "good" in names
    assert not names & {"bad", "none"}
    assert "none" not in list(host.schemes)


def test_duplicate_name_is_refused_with_both_distributions(fakes: FakeDistributions) -> None:
    fakes.install("alpha", scheme_source("same"))
    fakes.install("beta", scheme_source("same"), distribution="other-dist", version="7")
    host = Host.discover()
    assert host.schemes["same"].plugin.name == "alpha"
    error = record(host, "beta").error
    assert error is not None
    assert "alpha (wmbench-alpha 1.2.3)" in error
    assert "beta (other-dist 7)" in error


def test_refused_plugin_leaves_nothing_behind(fakes: FakeDistributions) -> None:
    """All or nothing: the attack of a plugin whose scheme is refused is not registered either."""
    fakes.install("alpha", scheme_source("same"))
    fakes.install(
        "beta",
        scheme_source("same")
        + """
    from wmbench.types import AttackInfo

    @hookimpl
    def register_attacks():
        return [AttackInfo("leftover", "made up", "MODULE:make")]
""",
    )
    assert "leftover" not in list(Host.discover().attacks)


def test_misspelt_name_suggests_the_near_one(fakes: FakeDistributions) -> None:
    fakes.install("good", scheme_source("good-scheme"))
    with pytest.raises(UnknownNameError, match="did you mean 'good-scheme'") as caught:
        Host.discover().schemes["goodscheme"]
    assert caught.value.exit_code == 2


def test_prefix_names_take_an_argument(fakes: FakeDistributions) -> None:
    fakes.install(
        "sets",
        """
        from wmbench import hookimpl
        from wmbench.types import DatasetInfo

        @hookimpl
        def register_datasets():
            return [DatasetInfo("lines:", "prompts from a file", "MODULE:read")]
        """,
    )
    datasets = Host.discover().datasets
    entry, argument = datasets.resolve("lines:some/file.jsonl:2")
    assert (entry.info.name, argument) == ("lines:", "some/file.jsonl:2")
    assert datasets["lines:x"] is entry
    with pytest.raises(ConfigError, match="after the colon"):
        datasets.resolve("lines:")
    with pytest.raises(UnknownNameError):
        datasets.resolve("linse:x")
    assert ("lines:", entry) in datasets.items(), "what can be listed can be looked at"
    assert "lines:" in datasets
    assert "absent" not in datasets


def test_inline_plugin_file(tmp_path: Path) -> None:
    source = scheme_source("inline-scheme").replace("MODULE:make", "wmbench_inline_my_idea:make")
    file = tmp_path / "my_idea.py"
    file.write_text("\n".join(line[4:] for line in source.splitlines()))
    host = Host.discover([file])
    entry = host.schemes["inline-scheme"]
    assert (entry.plugin.name, entry.plugin.version) == ("my_idea", "inline")
    assert load_attribute(entry.info.factory, entry.plugin)(None, None) == "built"


@pytest.mark.parametrize(
    "source",
    [
        "raise RuntimeError('typo')",
        "raise SystemExit(0)",
        "syntax error",
        "def register_schemes(): return []",
        "from wmbench import hookimpl\n@hookimpl\ndef register_scheme(): return []\n",
    ],
)
def test_inline_plugin_errors_are_always_fatal(tmp_path: Path, source: str) -> None:
    file = tmp_path / "wrong_idea.py"
    file.write_text(source)
    with pytest.raises(PluginError, match="wrong_idea") as caught:
        Host.discover([file])
    assert "STRICT" not in str(caught.value)


def test_inline_plugins_of_one_name_are_two_plugins(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        source = scheme_source(name).replace('"MODULE:make"', 'f"{__name__}:make"').replace('"built"', f'"{name}"')
        files.append(tmp_path / name / "idea.py")
        files[-1].parent.mkdir()
        files[-1].write_text("\n".join(line[4:] for line in source.splitlines()))
    host = Host.discover(files)
    for name in ("one", "two"):
        entry = host.schemes[name]
        assert load_attribute(entry.info.factory, entry.plugin)(None, None) == name
    with pytest.raises(PluginError, match="wmbench_inline_idea"):  # which one is meant?
        load_attribute("wmbench_inline_idea:make")


def test_inline_plugin_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        Host.discover([tmp_path / "absent.py"])


@pytest.mark.parametrize(
    "path", ["fake_exiting:x", "no_colon", "no_such_module:x", "wmbench.types:NoSuchName", "wmbench.types:Sample.nope"]
)
def test_unloadable_factory_names_the_plugin(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fake_exiting.py").write_text("raise SystemExit(0)")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PluginError, match=r"mine \(my-dist 2\)") as caught:
        load_attribute(path, PluginRecord("mine", "my-dist", "2"))
    assert path in str(caught.value)
