"""What people install: the wheel holds every package and data file, and its command works without the checkout."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [ROOT / "wmbench", *ROOT.glob("plugins/*/wmbench_*"), ROOT / "attacks" / "wmbench_attacks"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return next(out.glob("*.whl"))


def test_the_wheel_holds_every_package_and_data_file(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    expected = {
        str((ROOT / name).relative_to(package.parent))
        for name in tracked.split("\0")
        for package in PACKAGES
        if name and (ROOT / name).is_relative_to(package)
    }
    assert len(expected) > 100
    assert not expected - inside


def test_the_installed_command_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], check=True, cwd=tmp_path)
    # The dependencies (torch alone is 200 MB) are lent by the environment that runs the tests, behind the wheel.
    site = next((home / "lib").glob("python*/site-packages"))
    (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"])

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [home / "bin" / "wmbench", *arguments], check=True, cwd=tmp_path, capture_output=True, text=True
        )
        return done.stdout

    where = subprocess.run(
        [python, "-c", "import wmbench; print(wmbench.__file__)"],
        check=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert str(home) in where.stdout
    assert "none" in run("ls")
    assert "A" in run("lab", "show", "--topic", "emergency-fund", "--seed", "1")
    run("run", "--scheme", "none", "--backbone", "tiny", "--dataset", "toy", "--samples", "2")
    assert list(tmp_path.glob("runs/none_tiny_toy_*/samples.jsonl"))
