"""Every scheme runs on every family through the same pipeline, from the command line."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests import toy_encoder_plugin
from tests.backbones.families import KINDS, NAMES
from wmbench.cli.app import run_cli, wmbench

SCHEMES = ("none", "denmark", "dlm_kgw", "patternmark", "dgmark", "umr")
SHORT = ["-D", "max_new_tokens=24", "-D", "temperature=1.0", "--batch-size", "3", "--device", "cpu"]


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    texts = ["Which one?", "Save a little every month, please, and say why.", "Bake"]
    path = tmp_path / "prompts.txt"
    path.write_text("\n".join(texts))
    return path


def generate(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    code = run_cli(["generate", "--json", *arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return [json.loads(line) for line in captured.out.splitlines()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_generate(
    kind: str,
    scheme: str,
    checkpoints: dict[str, Path],
    prompts: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Under the paper's settings of scheme and backbone, shortened; at batch 3."""
    monkeypatch.setenv("WMBENCH_KEY", "11" * 32)
    few = {"denmark": ["-S", "encoder=toy", "-S", "dimension=16", "-S", "candidates=3", "-S", "rollouts=1"]}
    steps = ["-D", "steps=24"] if NAMES[kind] == "dream-7b" and scheme not in ("dgmark",) else []
    arguments = ["--file", str(prompts), "--backbone", NAMES[kind], "-B", f"path={checkpoints[kind]}", *SHORT, *steps]
    records = generate(
        capsys, "--scheme", scheme, "--plugin", toy_encoder_plugin.__file__, *arguments, *few.get(scheme, [])
    )
    assert [len(record["token_ids"]) for record in records] == [24, 24, 24]  # type: ignore[arg-type]
    assert all(record["cost"]["forward_tokens"] > 0 for record in records)  # type: ignore[index]


_WORDS = "the river rises in spring and floods the lower fields save a little every month please"


@pytest.mark.parametrize("kind", KINDS)
def test_run_from_prompts_to_metrics(
    kind: str,
    checkpoints: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All schemes in one command; every one with a detector ends in metrics."""
    monkeypatch.setenv("WMBENCH_KEY", "11" * 32)
    monkeypatch.chdir(tmp_path)
    draw, words = random.Random(0), _WORDS.split()
    nulls = [json.dumps({"id": f"n{i}", "text": " ".join(draw.choices(words, k=30))}) for i in range(120)]
    Path("nulls.jsonl").write_text("\n".join(nulls))
    prompts = [json.dumps({"prompt": " ".join(draw.choices(words, k=3 + 8 * i))}) for i in range(3)]
    Path("prompts.jsonl").write_text("\n".join(prompts))
    arguments = [
        "run", "--json", "--model", str(checkpoints[kind]), "--plugin", toy_encoder_plugin.__file__,
        *(part for scheme in SCHEMES for part in ("--scheme", scheme)),
        *(part for setting in toy_encoder_plugin.TOY_DENMARK for part in ("-S", f"denmark.{setting}")),
        "--dataset", "jsonl:prompts.jsonl", "--nulls", "texts:nulls.jsonl", "--no-attacks", "--alpha", "0.1",
        "--calibration-texts", "40", "--heldout-texts", "10", "-F", "min_tokens=1", "--device", "cpu",
        "--batch-size", "3", "-D", "max_new_tokens=30", "-D", "temperature=1.0", "-D", "steps=30",
    ]  # fmt: skip
    assert run_cli(arguments) == 0, capsys.readouterr().err
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [run["counts"]["samples"]["done"] for run in runs] == [3] * len(SCHEMES)
    assert [run["metrics"] is not None for run in runs] == [scheme != "none" for scheme in SCHEMES]


def test_a_directory_is_found_by_its_model_type(
    checkpoints: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    found = {}
    for kind in KINDS:
        assert run_cli(["validate", "--scheme", "none", "--model", str(checkpoints[kind]), "--json"]) == 0
        (plan,) = json.loads(capsys.readouterr().out)["runs"]
        found[kind] = plan["backbone"]["name"]
        assert plan["backbone"]["settings"]["path"] == str(checkpoints[kind])
    assert found == NAMES


def test_short_options_are_backbone_settings(checkpoints: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--device", "cpu", "--compile", "--no-chat-template"]
    assert run_cli(["validate", "--scheme", "none", "--model", "llada-8b", *options, "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["runs"][0]["backbone"]["settings"]
    assert (settings["device"], settings["compile"], settings["prompt"]) == ("cpu", True, "plain")


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate", "x", "--model", "/nowhere/at/all"],
        ["generate", "x", "--model", "dream-7b", "-B", "path=./nowhere"],
        ["generate", "x", "--model", "masked-lm:"],
        ["validate", "--scheme", "none", "--model", "tiny", "--no-chat-template"],
    ],
)
def test_mistakes_have_exit_code_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(arguments) == 2
    error = capsys.readouterr().err
    assert "next step" in error
    assert "Traceback" not in error


def test_models_check(checkpoints: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    for kind in KINDS:
        arguments = ["models", "check", str(checkpoints[kind]), "--scheme", "denmark", "--device", "cpu", "--json"]
        assert run_cli(arguments) == 0, capsys.readouterr().err
        report = json.loads(capsys.readouterr().out)
        assert report["model"]["backbone"] == NAMES[kind]
        assert report["checks"]["padding"] < 1e-4
        assert report["checks"]["rotary"] < 1e-6
        assert report["ids"]["mask"]["token"] in ("<|mdm_mask|>", "<|mask|>")
        assert report["cost"]["forwards_per_token"] > 1
    assert run_cli(["models", "check", str(checkpoints["llada"]), "--device", "cpu"]) == 0
    assert "mask" in capsys.readouterr().out


def test_models_check_says_what_is_wrong(tmp_path: Path) -> None:
    result = CliRunner().invoke(wmbench, ["models", "check", str(tmp_path)])
    assert result.exit_code != 0
    assert run_cli(["models", "check", str(tmp_path)]) == 2
