"""Commands in processes of their own: what they import, and what they do when nobody reads on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("private_surroundings")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["ls"], ["plugins"], ["run", "--help"], ["rnu"]])
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    code = (
        "import sys; from wmbench.cli import main\n"
        "assert not {'numpy', 'pydantic', 'torch', 'rich'} & set(sys.modules), 'import of wmbench.cli'\n"
        f"main({arguments!r})\n"
        "print(sorted({'torch', 'pydantic', 'scipy', 'rich', 'tokenizers'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("run --scheme denmrk", "did you mean 'denmark'"),
        ("run --scheme denmark --scheme nonne", "did you mean 'none'"),
        ("run --scheme denmark --backbone minni", "did you mean 'mini'"),
        ("run --scheme denmark --dataset finanse", "did you mean 'finance'"),
        ("run --scheme denmark --nulls labb", "did you mean 'lab'"),
        ("run --scheme denmark --attack delte:0.3", "did you mean 'delete'"),
        ("run --scheme denmark --attack delete:0.3|swapp", "did you mean 'swap'"),
        ("run --scheme denmark --judge minijudge", "name mini-judge or hf:"),
        ("generate --scheme denmrk prompt", "did you mean 'denmark'"),
        ("attack --attack delte text.txt", "did you mean 'delete'"),
        ("detect --scheme denmrk text.txt", "did you mean 'denmark'"),
    ],
)
def test_a_typo_is_told_before_torch_is_imported(words: str, meant: str) -> None:
    code = (
        f"import sys; from wmbench.cli import main; code = main({words.split()!r})\n"
        "print('torch' in sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert meant in done.stderr
    assert done.stderr.splitlines()[-1] == "False"


PRINTING_PLUGIN = """
import click
from wmbench import hookimpl

@click.command()
def mutter():
    print("kept until the end")

@click.command()
def table():
    from rich.console import Console
    Console().print("at once")

@hookimpl
def register_commands():
    return [(name, f"{__name__}:{name}", "Say something.") for name in ("mutter", "table")]
"""


@pytest.mark.parametrize(
    ("words", "is_error_closed"),
    [
        ("ls", False),
        ("run --help", False),
        ("plugins --json", False),
        ("--plugin printing.py table", False),
        ("--plugin printing.py mutter", False),
        ("nosuch", True),
    ],
)
def test_a_reader_that_has_gone_ends_a_command_quietly(words: str, is_error_closed: bool) -> None:
    Path("printing.py").write_text(PRINTING_PLUGIN)
    read, write = os.pipe()
    os.close(read)
    error = write if is_error_closed else subprocess.PIPE
    command = [sys.executable, "-m", "wmbench.cli", *words.split()]
    done = subprocess.run(command, stdout=write, stderr=error, text=True, check=False)
    os.close(write)
    assert done.returncode == 141
    assert not done.stderr
