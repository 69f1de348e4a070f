"""The Python interface does what the commands do."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wmbench
from tests.pipeline.helpers import PLUGIN, SMALL, metrics
from tests.pipeline.helpers import run as run_by_pipeline
from wmbench.errors import CalibrationError, ConfigError

SETTINGS = {name: value for name, value in SMALL.items() if name != "schemes"}
MODEL: dict[str, Any] = {"backbone": "tiny", "decoding": {"max_new_tokens": 24}, "plugins": [PLUGIN]}


def test_the_example_of_the_docs_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    status, *verdicts = done.stdout.splitlines()
    assert status.startswith("success {'estimate'")
    assert len(verdicts) == 2


def test_run_and_detect_agree_with_the_pipeline(tmp_path: Path) -> None:
    by_pipeline = metrics(run_by_pipeline(tmp_path / "a"))
    (result,) = wmbench.run("green", output=tmp_path / "b", plugins=[PLUGIN], **SETTINGS)
    assert (result.scheme, result.backbone, result.dataset, result.status) == ("green", "tiny", "toy", "success")
    assert result.metrics == by_pipeline

    texts = [g.text for g in wmbench.generate(["w3 w4", "w5"], {"name": "green", "params": {"delta": 9.0}}, **MODEL)]
    verdicts = wmbench.detect(texts, result.folder / "calibration.npz", plugins=[PLUGIN], evidence=True)
    assert [verdict.detected for verdict in verdicts] == [True, True]
    assert verdicts[0].evidence
    (clean,) = wmbench.detect("w3 w4 w5 w6", result.folder / "calibration.npz", plugins=[PLUGIN])
    assert clean.p_value > verdicts[0].p_value


def test_a_named_scheme_keeps_the_settings_of_its_calibration(tmp_path: Path) -> None:
    strong = {"name": "green", "params": {"delta": 6.0}}
    (result,) = wmbench.run(strong, output=tmp_path, plugins=[PLUGIN], **SETTINGS)
    calibration = result.folder / "calibration.npz"
    named, unnamed = (wmbench.detect("w3 w4 w5", calibration, plugins=[PLUGIN], scheme=s) for s in ("green", None))
    assert named == unnamed
    with pytest.raises(CalibrationError, match="another detector"):
        wmbench.detect("w3", calibration, plugins=[PLUGIN], scheme={"name": "green", "params": {"delta": 1.0}})


def test_a_backbone_that_is_given_stands_for_that_of_the_calibration(tmp_path: Path) -> None:
    (result,) = wmbench.run("green", output=tmp_path, plugins=[PLUGIN], **SETTINGS)
    calibration = result.folder / "calibration.npz"

    def found(**given: Any) -> Any:
        return wmbench.detect("w3 w4 w5", calibration, plugins=[PLUGIN], **given)

    by_either = [found(backbones=["tiny"]), found(backbone="tiny-block")]  # the same tokenizer
    assert by_either == [found(), found()] == [found(backbone=None), found(backbones=None)]  # None: it is not given
    with pytest.raises(ConfigError, match="one scheme on one backbone"):
        found(backbones=["tiny", "tiny-block"])


def test_generate_keeps_the_order_and_depends_on_seed_and_scheme() -> None:
    prompts = [f"w{i}" for i in range(3, 8)]
    clean = [g.text for g in wmbench.generate(prompts, **MODEL)]
    assert [g.text for g in wmbench.generate(prompts, batch_size=2, **MODEL)] == clean
    assert [g.sample.prompt for g in wmbench.generate(prompts, **MODEL)] == prompts
    assert [g.text for g in wmbench.generate(prompts, seed=1, **MODEL)] != clean
    assert [g.text for g in wmbench.generate(prompts, "green", **MODEL)] != clean


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="which scheme"):
        wmbench.detect("w3")
    with pytest.raises(ConfigError, match="text 0 is not a string"):
        wmbench.detect(b"w3", scheme="green", plugins=[PLUGIN])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="prompt 1 is not a string"):
        wmbench.generate(["w3", None], **MODEL)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="sampels"):
        wmbench.run("none", sampels=3)
    with pytest.raises(ConfigError, match="one scheme"):
        wmbench.generate("w3", "all", **MODEL)
    with pytest.raises(CalibrationError):
        wmbench.run("green", output=tmp_path, plugins=[PLUGIN], **{**SETTINGS, "calibration_texts": 10})


def test_importing_wmbench_imports_no_torch() -> None:
    code = "import wmbench, sys; wmbench.run; assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
