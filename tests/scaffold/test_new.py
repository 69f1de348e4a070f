"""`wmbench new`: what it writes can be built, is found by the host, passes its own tests and the linters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import wmbench
from wmbench.cli import main
from wmbench.host import Host
from wmbench.scaffold import NewPlugin

NAMES = {"scheme": "two-part", "attack": "stut_ter"}
"""With the joints that distribution, module and class each spell in another way."""


@dataclass(frozen=True)
class Package:
    kind: str
    name: str
    folder: Path
    site: Path
    """Where it is installed: its wheel, unpacked."""

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """A command of this Python in the package's folder, which finds the installed package only."""
        paths = os.pathsep.join([str(self.site), *(path for path in sys.path if path)])
        return subprocess.run(
            [sys.executable, "-P", "-m", *command],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": paths, **environment},
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture(scope="module", params=["scheme", "attack"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Package:
    kind, name = request.param, NAMES[request.param]
    root = tmp_path_factory.mktemp(kind)
    folder, site = root / "made" / "here", root / "site"
    assert main(["new", kind, name, "--folder", str(folder)]) == 0
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(root / "dist")]
    subprocess.run(build, cwd=folder, check=True, capture_output=True)
    zipfile.ZipFile(next((root / "dist").glob("*.whl"))).extractall(site)
    return Package(kind, name, folder, site)


@pytest.fixture
def installed(package: Package, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    monkeypatch.syspath_prepend(str(package.site))
    yield package
    for module in [name for name in sys.modules if name.startswith(NewPlugin("scheme", package.name).module)]:
        del sys.modules[module]


def test_the_host_finds_it(installed: Package) -> None:
    host = Host.discover()
    assert [str(plugin) for plugin in host.plugins if plugin.error] == []
    registry = host.schemes if installed.kind == "scheme" else host.attacks
    entry = registry[installed.name]
    assert (entry.plugin.name, entry.plugin.version) == (installed.name, "0.1.0")
    assert entry.plugin.distribution == f"wmbench-{installed.name.replace('_', '-')}"


def test_it_works(installed: Package, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMBENCH_KEY", "5a" * 32)
    if installed.kind == "attack":
        text = "The river rises in spring.\nIt floods the meadows.\n"
        (installed.folder / "a.txt").write_text(text)
        assert main(["attack", "--attack", f"{installed.name}:1", str(installed.folder / "a.txt")]) == 0
        twice = [word for word in text.split() for _ in range(2)]
        assert capsys.readouterr().out.split() == twice
        return
    marked, clean = [], []
    for scheme, texts in ((installed.name, marked), ("none", clean)):
        command = ["generate", "red fox", "--backbone", "tiny", "-D", "max_new_tokens=24", "--scheme", scheme]
        assert main(command) == 0
        texts.append(capsys.readouterr().out)
    assert marked != clean


def test_its_own_tests_pass(package: Package) -> None:
    done = package.run("pytest", "-p", "no:cacheprovider", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_its_tests_can_fail(package: Package) -> None:
    """A scheme without a bonus, an attack that returns the text: the contract, or the tests of its own, notice."""
    module = package.site / NewPlugin("scheme", package.name).module / f"{package.kind}.py"
    source = module.read_text()
    whole = {"scheme": "step.commit(logits + bonus)", "attack": 'Attacked("".join(pieces)'}[package.kind]
    broken = {"scheme": "step.commit(logits)", "attack": "Attacked(item.text"}[package.kind]
    test = {"scheme": "marks_change_the_text", "attack": "ratio_is_the_share"}[package.kind]
    assert whole in source
    module.write_text(source.replace(whole, broken))
    try:
        done = package.run("pytest", "-p", "no:cacheprovider", "-q", "-k", test, PYTHONDONTWRITEBYTECODE="1")
    finally:
        module.write_text(source)
    assert done.returncode == 1, done.stdout + done.stderr


def test_ruff_finds_nothing(package: Package) -> None:
    """Under the rules of its own, and under those of wmbench."""
    rules = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    for command in (
        ["check", "--no-cache"],
        ["check", "--no-cache", "--select", ",".join(rules["select"])],
        ["format", "--no-cache", "--check"],
    ):
        done = package.run("ruff", *command, ".")
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_mypy_finds_nothing(package: Package, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = tmp_path_factory.getbasetemp() / "mypy"  # shared by both: torch takes a minute
    sources = Path(wmbench.__file__).parents[1]  # of an editable install, which mypy would not find by itself
    ours = [path for path in sys.path if path and sources in (Path(path), *Path(path).parents)]
    search = os.pathsep.join(path for path in ours if "site-packages" not in path)
    done = package.run("mypy", "--cache-dir", str(cache), MYPYPATH=search)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_written_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "attack", "my_attack", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["kind"], told["name"], told["folder"]) == ("attack", "my_attack", "wmbench-my-attack")
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert set(told["files"]) == written
    for path in written:
        text = (tmp_path / path).read_text()
        assert "{{" not in text
        assert "jinja" not in text + path
    assert main(["new", "scheme", "other"]) == 0
    assert "wmbench conform other" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["scheme", "denmark"], ["scheme 'denmark' is installed already", "wmbench 0.1", "'my_denmark'"]),
        (["attack", "crop"], ["attack 'crop' is installed already", "plugin attacks"]),
        (["attack", "lab"], ["a plugin 'lab' is installed already"]),
        (["attack", "all"], ["several attacks"]),
        (["scheme", "MyMark"], ["cannot be the name", "did you mean 'my_mark'?"]),
        (["scheme", "my mark!"], ["did you mean 'my_mark'?"]),
        (["scheme", "3d"], ["did you mean 'd'?"]),
        (["scheme", "../up"], ["did you mean 'up'?"]),
        (["scheme", "***"], ["for instance my_mark"]),
        (["scheme", "x" * 300], ["at most 40"]),
        (["scheme", ""], ["cannot be the name"]),
        (["scheme", "mine", "--folder", "taken"], ["exists already", "taken", "--folder"]),
        (["scheme", "mine", "--folder", "file/below"], ["cannot be written", "--folder"]),
        (["scheme", "mine", "--folder", "x" * 300], ["cannot be written", "--folder"]),
        (["shceme", "mine"], ["shceme"]),
    ],
)
def test_a_bad_name_or_folder_is_refused(
    arguments: list[str],
    words: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").mkdir()
    Path("file").touch()
    assert main(["new", *arguments]) == 2
    output = capsys.readouterr()
    for word in words:
        assert word in output.err
    assert {path.name for path in tmp_path.rglob("*")} == {"taken", "file"}


def test_a_module_of_that_name_is_not_hidden(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wmbench_mine.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["new", "scheme", "mine", "--folder", str(tmp_path / "new")]) == 2
    assert "there is a module wmbench_mine already" in capsys.readouterr().err
